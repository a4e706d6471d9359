"""Decide packages, files and units of the GPU roles."""
