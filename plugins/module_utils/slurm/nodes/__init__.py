"""Drain, reboot and resume nodes, and only those that bedplate took out of service itself."""
