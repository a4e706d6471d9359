# SPDX-License-Identifier: GPL-3.0-or-later
"""Playbooks that command BMCs: discover, power, and comparisons of firmware and BIOS."""
