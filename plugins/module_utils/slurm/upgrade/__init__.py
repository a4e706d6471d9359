"""Look at a host before an upgrade, and go back."""
