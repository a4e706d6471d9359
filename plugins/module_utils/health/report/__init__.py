"""Formats that agent, prolog and controller share."""
