"""Serve the orders of machines that are installed, and install a machine."""
