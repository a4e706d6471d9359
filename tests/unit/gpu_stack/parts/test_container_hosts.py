"""What the action `part` decides of container_runtime for the hosts of a cluster file, and how it refuses."""

from __future__ import annotations

from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
from ansible.errors import AnsibleActionFail
from ansible.parsing.dataloader import DataLoader
from ansible.template import Templar

from ansible_collections.bedplate.cluster.plugins.action.part import ActionModule
from tests.kit.decided import decided

ROOT = Path(__file__).parents[4]
ROLE = "container_runtime"
KEY = "-----BEGIN PGP PUBLIC KEY BLOCK-----\n\nmQ==\n-----END PGP PUBLIC KEY BLOCK-----\n"


@pytest.fixture
def cluster_file(tmp_path: Path) -> str:
    (tmp_path / "keys").mkdir()
    (tmp_path / "keys/mirror.asc").write_text(KEY)
    path = tmp_path / "c.bedplate.yml"
    path.write_text((ROOT / "molecule/container_runtime/container_runtime.bedplate.yml").read_text())
    return str(path)


def test_the_toolkit_comes_first_in_the_stated_version(cluster_file: str) -> None:
    assert decided(ROLE, cluster_file, "gpu1")["packages"][0] == "nvidia-container-toolkit=1.18.2-1"


def test_each_node_has_the_engines_of_its_system(cluster_file: str) -> None:
    found = {host: decided(ROLE, cluster_file, host) for host in ("gpu1", "gpu2", "ctl1")}
    assert "passt" in found["gpu1"]["packages"]
    assert "slirp4netns" in found["gpu2"]["packages"]
    assert found["ctl1"]["packages"] == []


def run(cluster_file: str, host: str, **variables: Any) -> dict[str, Any]:
    """Run the action without a part, as the role's validate does, on a connection to nobody."""
    task = SimpleNamespace(action="part", args={"role": ROLE}, check_mode=False, async_val=0, tags=[], _role=None)
    connection = SimpleNamespace(_shell=SimpleNamespace(tmpdir=None))
    action = ActionModule(
        task, connection, SimpleNamespace(remote_user=None), DataLoader(), Templar(DataLoader()), None
    )
    task_vars = {"bedplate_cluster_file": cluster_file, "inventory_hostname": host, **variables}
    return dict(action.run(task_vars=task_vars))


@pytest.mark.parametrize(
    ("host", "engines", "said"),
    [
        ("gpu9", ["podman"], "role container_runtime: .*gpu9"),
        ("gpu1", ["pod"], "role container_runtime: .*'pod'; allowed: podman"),
    ],
)
def test_mistakes_name_the_role(cluster_file: str, host: str, engines: list[str], said: str) -> None:
    assert run(cluster_file, "gpu1")["changed"] is False
    with pytest.raises(AnsibleActionFail, match=said):
        run(cluster_file, host, container_runtime_engines=engines)
