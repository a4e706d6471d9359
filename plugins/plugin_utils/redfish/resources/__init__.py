# SPDX-License-Identifier: GPL-3.0-or-later
"""Read Redfish resources of a BMC, its dialect, and its attribute registry."""
