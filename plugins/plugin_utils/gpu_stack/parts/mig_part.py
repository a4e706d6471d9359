# SPDX-License-Identifier: GPL-3.0-or-later
"""Decide how MIG splits the GPUs of a profile."""

from __future__ import annotations

from ...cluster import Profile


def has_split(profile: Profile) -> bool:
    """Return whether the file splits the GPUs of a profile."""
    return profile.gpus is not None and bool(profile.gpus.mig)


def is_whole(profile: Profile) -> bool:
    """Return whether the GPUs of a profile are given to jobs as whole ones, by their device files."""
    return profile.gpus is not None and not profile.gpus.mig and profile.gpus.detect == "explicit"
