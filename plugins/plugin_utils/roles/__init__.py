"""Check role variables that an argument spec cannot check."""
