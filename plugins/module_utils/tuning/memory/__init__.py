"""Allocate huge pages of each NUMA node, above a memory floor."""
