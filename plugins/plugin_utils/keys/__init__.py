# SPDX-License-Identifier: GPL-3.0-or-later
"""Compare keys of repositories with stated and published fingerprints."""
