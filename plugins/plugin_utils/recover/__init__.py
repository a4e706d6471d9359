"""Recover nodes with a new machine: prove host keys, compare GUIDs, and judge the result."""
