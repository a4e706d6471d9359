"""The filter container_runtime as a task calls it."""

from __future__ import annotations

from pathlib import Path

import pytest
from ansible.errors import AnsibleError

from tests.unit.filters.documented import check_examples, template

ROOT = Path(__file__).parents[4]
KEY = "-----BEGIN PGP PUBLIC KEY BLOCK-----\n\nmQ==\n-----END PGP PUBLIC KEY BLOCK-----\n"
CHOICES = {"engines": ["podman"], "packages": {}, "enroot": [], "enroot_settings": {}, "pyxis": {}}


@pytest.fixture
def cluster_file(tmp_path: Path) -> str:
    (tmp_path / "keys").mkdir()
    (tmp_path / "keys/mirror.asc").write_text(KEY)
    path = tmp_path / "c.bedplate.yml"
    path.write_text((ROOT / "molecule/container_runtime/container_runtime.bedplate.yml").read_text())
    return str(path)


def test_the_example_is_as_documented(cluster_file: str) -> None:
    check_examples("container_runtime", cluster_file)


def test_each_node_has_the_engines_of_its_system(cluster_file: str) -> None:
    expression = "bedplate_cluster_file | bedplate.cluster.container_runtime(host, choices)"
    found = {host: template(expression, cluster_file, host=host, choices=CHOICES) for host in ("gpu1", "gpu2", "ctl1")}
    assert "passt" in found["gpu1"]["packages"]
    assert "slirp4netns" in found["gpu2"]["packages"]
    assert found["ctl1"]["packages"] == []


@pytest.mark.parametrize(
    ("host", "choices", "said"),
    [
        ("gpu9", CHOICES, "gpu9"),
        ("gpu1", {**CHOICES, "engines": ["pod"]}, "container_runtime: .*'pod'; allowed: podman"),
    ],
)
def test_mistakes_name_the_filter(cluster_file: str, host: str, choices: dict[str, object], said: str) -> None:
    expression = "bedplate_cluster_file | bedplate.cluster.container_runtime(host, choices)"
    with pytest.raises(AnsibleError, match=said):
        template(expression, cluster_file, host=host, choices=choices)
