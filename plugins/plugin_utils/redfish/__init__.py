# SPDX-License-Identifier: GPL-3.0-or-later
"""Command BMCs by Redfish and IPMI: power, boot, media, and machine facts."""
