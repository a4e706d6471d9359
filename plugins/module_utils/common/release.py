# SPDX-License-Identifier: GPL-3.0-or-later
"""The release of bedplate that this tree is; galaxy.yml and pyproject.toml have the same."""

from __future__ import annotations

RELEASE = "0.2.0"
UNRECORDED = "0.1.0"
"""The release that wrote on a machine and recorded none: the first one recorded nothing."""
