"""Read the indexes of GPU repositories into a lock."""
