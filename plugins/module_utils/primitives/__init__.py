"""Change files and units as one, and restore them on failure."""
