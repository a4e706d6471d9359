"""Resolve a driver branch to one pinned set of GPU packages."""
