"""Derive groups, facts and reboot order of machines."""
