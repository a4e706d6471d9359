"""Drain, reboot and resume nodes that bedplate took out of service."""
