# SPDX-License-Identifier: GPL-3.0-or-later
"""A feature is one thing to Slurm: it is not also the GPU model of other nodes."""

from __future__ import annotations

from pathlib import Path

import pytest

from ansible_collections.bedplate.cluster.plugins.plugin_utils.cluster import ClusterFileError, load

BASE = (Path(__file__).parent / "base.yml").read_text()
CPU = "  cpu:\n    sockets: 1\n"


def test_a_feature_with_the_name_of_the_gpu_model_of_other_nodes_is_refused(tmp_path: Path) -> None:
    file = tmp_path / "a.bedplate.yml"
    file.write_text(BASE.replace(CPU, f"{CPU}    features: [h100]\n"))
    with pytest.raises(
        ClusterFileError, match=r": profiles\.cpu\.features\[0\]: 'h100' is the GPU model of profiles\.gpu8"
    ):
        load(str(file))
    file.write_text(BASE.replace(CPU, f"{CPU}    features: [h100s]\n"))
    assert load(str(file))
