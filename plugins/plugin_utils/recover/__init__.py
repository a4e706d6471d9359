"""Prove host keys of new machines, and plan how nodes rejoin."""
