"""Expectations of verify: rows of files from the deployments of roles, modes and digests of files."""

from __future__ import annotations

from pathlib import Path

import pytest

from ansible_collections.bedplate.cluster.plugins.module_utils.primitives.files.manifest import digest
from ansible_collections.bedplate.cluster.plugins.plugin_utils.cluster import load
from ansible_collections.bedplate.cluster.plugins.plugin_utils.common.cluster_secrets import ClusterSecrets
from ansible_collections.bedplate.cluster.plugins.plugin_utils.common.given_secrets import GivenSecrets
from ansible_collections.bedplate.cluster.plugins.plugin_utils.gpu_stack.package_sources import none
from ansible_collections.bedplate.cluster.plugins.plugin_utils.parts.decision import Decision
from ansible_collections.bedplate.cluster.plugins.plugin_utils.roles.host_decision import HostDecision
from ansible_collections.bedplate.cluster.plugins.plugin_utils.verify import expected
from ansible_collections.bedplate.cluster.plugins.plugin_utils.verify.file_contents import Contents

VALUES = {
    **none(),
    "manager": "apt",
    "obstacle": None,
    "foreign_sources": {},
    "packages": [],
    "follow": [],
    "hold": [],
    "first_toolkit": [],
    "driver": "",
    "modules_load": [],
}
LAB = Path(__file__).parents[3] / "inventories/lab/lab.bedplate.yml"


class Variables:
    """Variables of roles, of which one cannot be made."""

    def decision(self, role: str) -> HostDecision:
        if role == "rdma":
            raise ValueError("rdma_mtu: 17; allowed: 256 to 4096")
        made = Decision({role: VALUES}, {role: {"role": role}})
        return HostDecision(role, {}, made, lambda name, _path, _variables: name)


def test_a_role_whose_expectations_cannot_be_made_hides_no_other() -> None:
    host = expected.ExpectedHost(load(LAB), "gpu01", Variables(), {})  # type: ignore[arg-type]
    found = expected.expected(host, ["rdma", "cuda"])
    assert found.parts == {"cuda": {"role": "cuda"}}
    assert [(role, one["manifest"]) for role, one in found.deployments] == [("cuda", "cuda")]
    assert [(one.kind, one.where, one.found) for one in found.findings] == [
        ("unread", "role rdma", "rdma_mtu: 17; allowed: 256 to 4096")
    ]


def test_files_of_sources_are_expected_and_those_of_what_is_taken_away_are_not() -> None:
    files = {"sources": [{"path": "/a.list"}], "files": [{"path": "/a.conf"}]}
    deployments = [("one", {"manifest": "one", **files}), ("two", {"manifest": "two", "state": "absent", **files})]
    rows = expected.rows(deployments, lambda role, entry: entry)
    assert [(row["role"], row["path"]) for row in rows["files"]["files"]] == [("one", "/a.list"), ("one", "/a.conf")]


@pytest.mark.parametrize(
    ("entry", "mode"),
    [
        ({"path": "/a", "content": "x"}, "0644"),
        ({"path": "/a", "secret": "munge.key"}, "0600"),
        ({"path": "/a", "secret": "munge.key", "mode": "0400"}, "0400"),
        ({"path": "/a", "state": "directory"}, "0755"),
    ],
)
def test_the_mode_of_an_entry_is_the_one_that_deploy_sets(entry: dict[str, str], mode: str) -> None:
    row = Contents(None, None, None).row("role", entry)  # type: ignore[arg-type]
    assert row["mode"] == mode
    # A secret that this control node does not have is compared by owner and mode alone.
    assert (row.get("sha256") is None) == ("secret" in entry or entry.get("state") == "directory")


@pytest.mark.parametrize("entry", [{"content": "password @k@\n", "secrets": {"@k@": "token"}}, {"secret": "token"}])
def test_a_secret_is_compared_where_this_control_node_has_it_and_is_never_made(
    tmp_path: Path, entry: dict[str, object]
) -> None:
    """Also from a directory that others may read nothing is taken."""
    directory = tmp_path / "secrets"
    text = "password x\n" if "content" in entry else "x"

    def expected_digest(has: bool = True) -> object:
        given = GivenSecrets(None, lambda value: value, Path.read_bytes)
        secrets = ClusterSecrets(given, lambda: directory) if has else None
        return Contents(None, None, secrets).row("role", {"path": "/a", **entry})["sha256"]  # type: ignore[arg-type]

    assert expected_digest(has=False) is None
    assert expected_digest() is None
    assert not directory.exists()
    directory.mkdir(mode=0o700)
    (directory / "token").write_text("x")
    (directory / "token").chmod(0o400)
    assert expected_digest() == digest(text.encode())
    # Nothing is noted either: verify changes nothing.
    assert [path.name for path in directory.iterdir()] == ["token"]
    directory.chmod(0o755)
    assert expected_digest() is None
