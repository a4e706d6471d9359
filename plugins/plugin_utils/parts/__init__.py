"""Render parts of roles: packages, files and units as plain data."""
