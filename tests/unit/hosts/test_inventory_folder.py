# SPDX-License-Identifier: GPL-3.0-or-later
"""Files beside a cluster file that Ansible would read as inventories."""

from __future__ import annotations

from configparser import ConfigParser
from pathlib import Path

import pytest

from ansible_collections.bedplate.cluster.plugins.plugin_utils.hosts.inventory_folder import NEIGHBOURS, mistakes

ROOT = Path(__file__).parents[3]


def test_the_repository_ignores_the_same_names() -> None:
    config = ConfigParser(interpolation=None)
    config.read(ROOT / "ansible.cfg")
    assert config["inventory"]["ignore_patterns"].split(", ") == list(NEIGHBOURS)


@pytest.mark.parametrize(
    ("source", "names", "ignored", "found"),
    [
        (".", ["keys", "site.guids.json"], [], "keys, site.guids.json"),
        (".", ["keys", "site.guids.json"], ["^keys$"], "site.guids.json"),
        (".", ["keys"], NEIGHBOURS, None),
        (".", ["group_vars", "hosts.yml"], [], None),
        ("a.bedplate.yml", ["keys"], [], None),
    ],
)
def test_a_folder_with_other_files_is_refused(
    tmp_path: Path, source: str, names: list[str], ignored: list[str], found: str | None
) -> None:
    file = tmp_path / "a.bedplate.yml"
    for path in (file, *(tmp_path / name for name in names)):
        path.touch()
    texts = list(mistakes(file, [str(tmp_path / source)], ignored))
    assert [f"reads {found} as inventories" in text for text in texts] == ([True] if found else [])
