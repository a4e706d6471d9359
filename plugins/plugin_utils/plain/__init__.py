"""Clusters of inventories without a cluster file, and software that variables request."""
