"""Report the defaults that an update of bedplate changes."""
