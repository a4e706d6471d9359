"""Several clusters, and discoveries that were cut short, as the playbooks meet them in real runs."""

from __future__ import annotations

from pathlib import Path

import pytest

from ansible_collections.bedplate.cluster.plugins.module_utils.fabric.netfile import ibnetdiscover_text
from ansible_collections.bedplate.cluster.plugins.plugin_utils.fabric import record
from tests.unit.fabric.test_operator import books, cluster, play, seen


@pytest.mark.simulation
def test_recording_a_cluster_keeps_the_record_of_another_one_in_the_same_directory(tmp_path: Path):
    directories = [tmp_path / "one", tmp_path / "two"]
    records = []
    for directory in directories:
        directory.mkdir()
        found = cluster(directory)
        (directory / "now.txt").write_text(ibnetdiscover_text(seen(found)))
        options = ["-e", f"fabric_saved={directory}/now.txt", "-e", f"fabric_directory={tmp_path}/fabric"]
        done = play(*books("fabric_compare"), "-i", found.path, *options, "-e", "fabric_record=true")
        assert done.returncode == 0, done.stdout + done.stderr
        records.append(record.path_of(found.path))
    assert [path.exists() for path in records] == [True, True]
