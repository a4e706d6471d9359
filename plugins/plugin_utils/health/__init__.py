"""Decide what the roles node_health and health_control deploy."""
