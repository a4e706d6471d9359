"""Check how machines are commanded, booted and installed."""
