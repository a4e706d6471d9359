"""Declare every key of the cluster file, with type and meaning."""
