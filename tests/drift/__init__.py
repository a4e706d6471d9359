# SPDX-License-Identifier: GPL-3.0-or-later
"""Kinds of drift as data, and what makes, compares and judges them; importing the kit makes bedplate's own code importable."""

from tests.kit import ROOT as ROOT
