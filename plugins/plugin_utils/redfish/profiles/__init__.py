# SPDX-License-Identifier: GPL-3.0-or-later
"""Compare BIOS and firmware of machines with profiles, and plan the changes."""
