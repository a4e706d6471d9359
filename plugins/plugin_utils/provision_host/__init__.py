"""Decide what the roles provision and image deploy on the provision host."""
