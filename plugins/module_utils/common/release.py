# SPDX-License-Identifier: GPL-3.0-or-later
"""Hold the release number of this tree; galaxy.yml and pyproject.toml have the same number."""

from __future__ import annotations

RELEASE = "0.2.0"
UNRECORDED = "0.1.0"
"""Release of a machine that bedplate deployed without recording a release: the first release recorded none."""
