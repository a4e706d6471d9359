"""Findings, readings and events: the types that all rooms of health share."""
