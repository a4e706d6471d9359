# SPDX-License-Identifier: GPL-3.0-or-later
"""Variables, named nodes and accounts: mistakes end a run before a BMC is contacted."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from ansible_collections.bedplate.cluster.plugins.plugin_utils.bmc import bmc_variables
from ansible_collections.bedplate.cluster.plugins.plugin_utils.bmc.bmc_accounts import Accounts, account_of, accounts_of
from ansible_collections.bedplate.cluster.plugins.plugin_utils.bmc.bmc_targets import (
    NameMistakesError,
    Reach,
    named_nodes,
    repeated_mistakes,
    targets_of,
)
from ansible_collections.bedplate.cluster.plugins.plugin_utils.bmc.run_input import RunError, require_report
from ansible_collections.bedplate.cluster.plugins.plugin_utils.cluster import Cluster, load
from ansible_collections.bedplate.cluster.plugins.plugin_utils.common.cluster_secrets import ClusterSecrets
from ansible_collections.bedplate.cluster.plugins.plugin_utils.common.given_secrets import GivenSecrets
from ansible_collections.bedplate.cluster.plugins.plugin_utils.common.secrets import SecretError
from tests.unit.stand_ins import cluster_file


@pytest.fixture(scope="module")
def cluster(tmp_path_factory: pytest.TempPathFactory) -> Cluster:
    path = tmp_path_factory.mktemp("c") / "c.bedplate.yml"
    text = cluster_file({"a": {}}, {"a": "gpu[01-04]"})
    path.write_text(text.replace("networks:\n", "networks:\n  bmc: {cidr: 10.1.0.0/24}\n"))
    return load(str(path))


@pytest.mark.parametrize(
    ("playbook", "variables", "says"),
    [
        ("power", {}, ["power is missing", "power_nodes is missing"]),
        ("power", {"power": "reset", "power_nodes": "gpu01"}, ["power: 'reset'; allowed: on, off, cycle"]),
        ("power", {"power": "on", "power_node": "gpu01"}, ["did you mean power_nodes?", "power_nodes is missing"]),
        ("power", {"power": "on", "power_nodes": 3}, ["power_nodes: 3; allowed:"]),
        ("power", {"power": False, "power_nodes": "gpu01"}, []),
        ("bmc_discover", {"bmc_recrod": True}, ["did you mean bmc_record?"]),
        ("bmc_discover", {"bmc_record": "maybe"}, ["bmc_record: 'maybe'; allowed: true or false"]),
        ("firmware", {"firmware_wave": 0, "bmc_port": 70000}, ["bmc_port: 70000", "firmware_wave: 0"]),
        ("bios", {"firmware_wave": 0, "roll_percent": "x"}, []),
    ],
)
def test_mistakes_in_variables(playbook: str, variables: dict[str, object], says: list[str]) -> None:
    found = bmc_variables.mistakes(variables, playbook)
    assert len(found) == len(says)
    assert all(text in one for text, one in zip(says, found, strict=True)), found


def test_a_variable_of_another_playbook_on_the_command_line_is_a_mistake() -> None:
    (text,) = bmc_variables.foreign(["bmc_nodes", "bmc_record", "roll_percent"], "bmc_discover")
    assert text.startswith("bmc_nodes is a variable of bmc_commission.yml, not of bmc_discover.yml.")
    assert bmc_variables.foreign(["power_nodes", "bmc_port"], "power") == []


@pytest.mark.parametrize(
    ("playbook", "named", "inventory", "near"),
    [
        ("power", ["powr", "bcm_port"], [], ["bmc_port", "power"]),
        ("firmware", ["frmware_wave"], ["bmc_prt"], ["firmware_wave", "bmc_port"]),
        # Of a site, or of another playbook.
        ("power", ["bmc_record", "rack_power", "pdu"], ["powr", "bmc_password", "bmc_user"], []),
    ],
)
def test_a_name_that_is_nearly_a_variable_is_a_mistake(
    playbook: str, named: list[str], inventory: list[str], near: list[str]
) -> None:
    found = bmc_variables.slips(named, [*named, *inventory], playbook)
    assert [one.rpartition(" ")[2] for one in found] == [f"{name}?" for name in near]


@pytest.mark.parametrize("value", [None, True, [None], [True, "10.0.0.1"], 7])
def test_account_and_servers_are_texts(value: object) -> None:
    for name in ("bmc_user", "bmc_ntp"):
        found = bmc_variables.mistakes({"bmc_nodes": "gpu01", name: value}, "bmc_commission")
        assert [one.partition(":")[0] for one in found] == [name]


@pytest.mark.parametrize(
    ("text", "says"),
    [
        ("gpu[01", "unbalanced"),
        ("gpu[02-04]", "sworn: gpu\\[03-04\\] not in power_nodes; allowed: nodes of power_nodes"),
    ],
)
def test_nodes_that_are_named_twice(text: str, says: str) -> None:
    (found,) = repeated_mistakes(text, "sworn", "gpu[01-02]", "power_nodes")
    assert re.search(says, found)
    assert repeated_mistakes("gpu02", "sworn", "gpu[01-02]", "power_nodes") == []
    assert repeated_mistakes("", "sworn", "gpu01", "power_nodes") == []


def test_choices_have_defaults_and_yaml_may_read_off_as_false() -> None:
    found = bmc_variables.choices({"power": False, "power_nodes": "gpu01"}, "power")
    assert found == {
        "power": "off", "power_nodes": "gpu01", "power_without_slurm": "", "power_at_once": 64, "power_graceful": 120, "bmc_port": 443
    }  # fmt: skip


def test_nodes_are_named_in_the_order_of_the_file_and_a_limit_narrows_them(cluster: Cluster) -> None:
    assert named_nodes("gpu04,gpu[01-02],gpu01", cluster, "power_nodes") == ["gpu01", "gpu02", "gpu04"]
    assert named_nodes("gpu[01-02]", cluster, "power_nodes", {"gpu02", "gpu03"}) == ["gpu02"]


@pytest.mark.parametrize(
    ("text", "says"),
    [
        ("", "no name"),
        ("all", "'all' is not allowed"),
        ("*", "'\\*' is not allowed"),
        ("gpu[01", "unbalanced"),
        ("gpu09", "gpu09: not a node of the cluster file"),
        ("rack_a", "rack_a: not a node of the cluster file. Allowed: names of nodes, no patterns or groups"),
        ("ctl1", "ctl1 is a host outside the racks"),
    ],
)
def test_names_that_are_refused(text: str, says: str, cluster: Cluster) -> None:
    with pytest.raises(NameMistakesError, match=says):
        named_nodes(text, cluster, "power_nodes")
    with pytest.raises(NameMistakesError, match="--limit"):
        named_nodes("gpu01", cluster, "power_nodes", {"gpu02"})


def test_every_declared_bmc_is_a_target_hosts_as_well(cluster: Cluster) -> None:
    found = targets_of(cluster, {})
    nodes = [name for name, one in found.items() if one.profile]
    assert nodes == ["gpu01", "gpu02", "gpu03", "gpu04"]
    assert {one.protocol for one in found.values()} == {"redfish"}
    assert list(targets_of(cluster, {}, {"gpu03"})) == ["gpu03"]


def secrets(folder: Path, given: dict[str, str] | None = None) -> ClusterSecrets:
    return ClusterSecrets(GivenSecrets(given or {}, lambda value: value, lambda path: b""), lambda: folder)


def write(folder: Path, name: str, text: str) -> None:
    (folder / "bmc").mkdir(exist_ok=True)
    (folder / name).write_text(text)
    (folder / name).chmod(0o400)


def shown(accounts: Accounts) -> dict[str, tuple[str, str]]:
    return {node: (one.user, one.password) for node, one in accounts.accounts.items()}


def test_a_node_s_own_account_precedes_the_factory_s(tmp_path: Path) -> None:
    tmp_path.chmod(0o700)
    write(tmp_path, "bmc_factory", "root:calvin\n")
    write(tmp_path, "bmc/gpu01", "bedplate:a:b\n")
    found = accounts_of(secrets(tmp_path, {"bmc/gpu03": "x:y"}), ["gpu01", "gpu02", "gpu03"])
    assert shown(found) == {"gpu01": ("bedplate", "a:b"), "gpu02": ("root", "calvin"), "gpu03": ("x", "y")}
    assert found.factory == ("gpu02",)
    assert "calvin" not in repr(found)


def test_a_node_without_an_account_is_an_error_of_its_own_and_no_secret_is_made(tmp_path: Path) -> None:
    tmp_path.chmod(0o700)
    write(tmp_path, "bmc/gpu01", "only-a-canary\n")
    found = accounts_of(secrets(tmp_path), ["gpu01", "gpu02"])
    assert "secret bmc/gpu01: not an account; write USER:PASSWORD" in str(found.errors["gpu01"])
    assert "secret bmc/gpu02: not found" in str(found.errors["gpu02"])
    assert "bmc_factory" in str(found.errors["gpu02"])
    assert "canary" not in str(found)
    assert sorted(path.name for path in tmp_path.rglob("*")) == ["bmc", "gpu01"]


@pytest.mark.parametrize("text", ["", "root", ":x", "root:", "root:a\nb"])
def test_text_that_is_not_an_account(text: str) -> None:
    with pytest.raises(SecretError, match="not an account"):
        account_of("bmc_factory", text)


def test_a_run_can_make_and_remember_a_secret_of_a_bmc(tmp_path: Path) -> None:
    tmp_path.chmod(0o700)
    store = secrets(tmp_path).store
    assert store.keep("bmc/gpu-01.x", lambda: b"bedplate:new") == b"bedplate:new"
    assert len(store.known("bmc/gpu-01.x")) == 1
    assert sorted(path.name for path in (tmp_path / "bmc").iterdir()) == [".gpu-01.x.known", "gpu-01.x"]
    for name in ("bmc/..", "bmc/.x", "bmc/a/b", "other/a", "bmc/"):
        with pytest.raises(SecretError, match="allowed: a name"):
            store.get(name)


def test_an_expression_with_all_secrets_is_evaluated_for_given_nodes_alone(tmp_path: Path) -> None:
    tmp_path.chmod(0o700)
    write(tmp_path, "bmc_factory", "root:calvin")
    evaluated: list[object] = []

    def template(value: object) -> object:
        evaluated.append(value)
        return {"bmc/gpu01": "own:own"} if value == "{{ lookup() }}" else value

    given = GivenSecrets("{{ lookup() }}", template, lambda path: b"")
    found = accounts_of(ClusterSecrets(given, lambda: tmp_path), [f"gpu{number:02}" for number in range(1, 100)])
    assert found.accounts["gpu01"].user == "own"
    assert len(found.accounts) == 99
    assert len(evaluated) < 6


def test_a_bound_of_the_run_narrows_that_of_the_cluster_file() -> None:
    assert [Reach(at_once=256).at_most(number).at_once for number in (64, 512)] == [64, 256]


def test_a_folder_that_takes_no_report_is_found_without_a_report(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("")
    with pytest.raises(RunError, match=r"bmc_report .*allowed: a folder that this user may write"):
        require_report(str(tmp_path / "file" / "reports"), "c")
    assert require_report(str(tmp_path / "reports"), "c") == tmp_path / "reports"
    assert list((tmp_path / "reports").iterdir()) == []
