# SPDX-License-Identifier: GPL-3.0-or-later
"""Parts that tests share: jobs on a real cluster and their judge, faults, recordings."""

import sys
from pathlib import Path

ROOT = Path(__file__).parents[2]

# The link tree makes bedplate's own code importable without an installed collection.
if str(ROOT / "collections") not in sys.path:
    sys.path.insert(0, str(ROOT / "collections"))
