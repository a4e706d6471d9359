"""Decide files, units and boot tokens of the role node_tuning."""
