# SPDX-License-Identifier: GPL-3.0-or-later
"""The lab: a small cluster of systemd containers, reached over SSH like any other machines."""
