"""Xid codes, thresholds and lines of the kernel log, with their readers."""
