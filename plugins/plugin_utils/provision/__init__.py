# SPDX-License-Identifier: GPL-3.0-or-later
"""Install named nodes: confirm, verify, arm, wait, release, and prove the new system by its SSH host key."""
