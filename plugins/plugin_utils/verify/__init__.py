"""Decide what verify expects of each machine, and report its findings."""
