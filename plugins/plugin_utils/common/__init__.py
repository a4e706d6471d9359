"""Render templates, check arguments, and keep secrets, for all roles."""
