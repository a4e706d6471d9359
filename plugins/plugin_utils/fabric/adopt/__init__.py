"""Adopt a fabric that exists: audit it, and write its cables."""
