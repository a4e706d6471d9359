"""Start, restart, reload and stop systemd units."""
