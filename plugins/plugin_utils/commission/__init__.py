# SPDX-License-Identifier: GPL-3.0-or-later
"""Playbook that gives BMCs their own account, certificate and NTP."""
