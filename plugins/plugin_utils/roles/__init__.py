"""Decide what each role deploys on a host, and check role variables."""
