# SPDX-License-Identifier: GPL-3.0-or-later
"""What an upgrade cannot save, it does not begin: a database on another host, and packages of dnf."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

import pytest

from ansible_collections.bedplate.cluster.plugins.plugin_utils.upgrade import upgrade_arguments

SITE: Any = SimpleNamespace(path="c.yml", slurm=SimpleNamespace(packages=SimpleNamespace(manager="dnf")))


@pytest.mark.parametrize(("line", "name"), [("", "slurm_acct_db"), ("StorageHost=localhost\nStorageLoc=own", "own")])
def test_a_database_on_the_host_of_slurmdbd_is_dumped(monkeypatch: pytest.MonkeyPatch, line: str, name: str):
    monkeypatch.setattr(upgrade_arguments.render, "slurmdbd_conf", lambda _cluster: f"DbdHost=ctl1\n{line}\n")
    assert upgrade_arguments.database_name(SITE) == name


def test_a_database_on_another_host_is_refused(monkeypatch: pytest.MonkeyPatch):
    """The cluster file does not allow it either; a dump of an empty database beside it would be proved."""
    monkeypatch.setattr(upgrade_arguments.render, "slurmdbd_conf", lambda _cluster: "StorageHost=db.example.org\n")
    with pytest.raises(ValueError, match=r"c\.yml: slurm\.slurmdbd\.StorageHost: db\.example\.org; allowed: the host"):
        upgrade_arguments.database_name(SITE)


def test_packages_of_dnf_are_refused():
    decided: Any = None
    with pytest.raises(ValueError, match=r"c\.yml: slurm\.packages: packages of dnf; allowed: apt"):
        upgrade_arguments.requested(decided, SITE, "ctl1")
