# SPDX-License-Identifier: GPL-3.0-or-later
"""Mistakes found after the cluster file was read name the line of the nearest key that it has."""

from __future__ import annotations

from pathlib import Path

from ansible_collections.bedplate.cluster.plugins.plugin_utils.cluster.schema.late_mistakes import MistakeCollector

TEXT = "plugin: bedplate.cluster.racks\nsite: a\nfabric:\n  technology: infiniband\nservices:\n  controllers: c1\n"


def test_a_mistake_is_at_the_first_key_that_the_file_has(tmp_path: Path) -> None:
    file = tmp_path / "a.bedplate.yml"
    file.write_text(TEXT)
    wrong = MistakeCollector(str(file))
    wrong.add(("services", "subnet_managers"), "first", ("services",))
    wrong.add(("fabric", "technology"), "second", ("fabric",))
    wrong.add(("fabric", "leaves"), "third", ("fabric", "rails"))
    wrong.add(("fabric", "leaves"), "fourth", ("hosts",), ("services", "controllers"))
    found = wrong.lines()
    assert [(int(line.split(":")[1]), line.split(": ")[-1]) for line in found] == [
        (3, "third"), (4, "second"), (5, "first"), (6, "fourth"),
    ]  # fmt: skip


def test_a_file_that_is_gone_hides_no_mistake(tmp_path: Path) -> None:
    wrong = MistakeCollector(str(tmp_path / "gone.bedplate.yml"))
    assert wrong.lines() == []
    wrong.add(("fabric",), "wrong")
    assert [line.split(": ")[-1] for line in wrong.lines()] == ["wrong"]
