"""The filters that plan Slurm, called as templates call them."""

from __future__ import annotations

import hashlib
from pathlib import Path
from typing import Any

import pytest
import yaml
from ansible.errors import AnsibleError
from ansible.inventory.manager import InventoryManager
from ansible.parsing.dataloader import DataLoader
from ansible.template import Templar, trust_as_template
from ansible.vars.hostvars import HostVars
from ansible.vars.manager import VariableManager

from tests.kit import sentences
from tests.unit.filters import documented

SENTENCES = Path(__file__).parent / "sentences.txt"
SCHEDULER = "playbooks/phases/scheduler.yml"

ROOT = Path(__file__).parents[3]
LAB = ROOT / "inventories/lab/lab.bedplate.yml"
POD = ROOT / "inventories/examples/pod-32/pod-32.bedplate.yml"
FILTERS = [
    "slurm_accounts",
    "slurm_acting_controller",
    "slurm_changed_files",
    "slurm_controllers_outside",
    "slurm_controllers_written",
    "slurm_counted",
    "slurm_daemons",
    "slurm_expected",
    "slurm_file_entries",
    "slurm_files",
    "slurm_hosts_to_compare",
    "slurm_node_hardware",
    "slurm_packages",
    "slurm_parts",
    "slurm_refusal",
    "slurm_refused_lines",
    "slurm_script_options",
    "slurm_script_paths",
    "slurm_scripts",
    "slurm_state_marks",
    "slurm_state_refusal",
    "slurm_to_count",
    "slurm_topology",
    "slurm_unproven",
    "slurm_wanted",
    "slurmdbd_conf",
]
OF_HOSTVARS = (
    "slurm_acting_controller",
    "slurm_controllers_outside",
    "slurm_controllers_written",
    "slurm_counted",
    "slurm_hosts_to_compare",
    "slurm_refusal",
    "slurm_state_marks",
    "slurm_state_refusal",
    "slurm_to_count",
)


def template(expression: str, path: object = str(LAB), **variables: Any) -> Any:
    return documented.template(expression, path, **variables)


def of_the_role() -> dict[str, str]:
    """Return the expressions behind the files of a controller."""
    common = yaml.safe_load((ROOT / "roles/slurm/vars/main.yml").read_text())
    return {name: common[name] for name in ("__slurm_kept", "__slurm_files", "__slurm_controllers", "__slurm_cluster")}


def test_these_are_the_filters_of_the_file():
    assert documented.names("slurm") == FILTERS


@pytest.mark.parametrize("name", FILTERS)
def test_the_examples_of_the_documentation(name):
    documented.check_examples(name, str(LAB))


@pytest.mark.parametrize(
    ("host", "parts"),
    [
        ("ctl1", ["controller", "rest"]),
        ("ctl2", ["controller"]),
        ("db1", ["database"]),
        ("login1", ["login"]),
        ("x", []),
    ],
)
def test_parts_of_a_machine(host, parts):
    assert template(f"bedplate_cluster_file | bedplate.cluster.slurm_parts('{host}')", str(POD)) == parts


def test_accounts_of_the_pod():
    assert template("bedplate_cluster_file | bedplate.cluster.slurm_accounts", str(POD))["accounts"] == {
        "research": {
            "description": "Model training",
            "parent": "root",
            "users": ["alice", "bob"],
            "default_qos": "normal",
        }
    }


# What comes after the path.
ARGUMENTS = {
    **dict.fromkeys(("slurm_parts", "slurm_scripts", "slurm_script_paths"), "('ctl1')"),
    "slurm_node_hardware": "('gpu01', {}, [])",
    "slurm_packages": "([])",
    "slurm_topology": "('', 'x')",
    "slurm_unproven": "({})",
}
WITHOUT_PATH = (*OF_HOSTVARS, "slurm_changed_files", "slurm_file_entries", "slurm_refused_lines")


@pytest.mark.parametrize("name", [name for name in FILTERS if name not in WITHOUT_PATH])
def test_what_is_no_path_is_said(name):
    argument = ARGUMENTS.get(name, "")
    said = documented.refusal(f"bedplate_cluster_file | bedplate.cluster.{name}{argument}", 7)
    assert said.startswith(f"{name} ")
    sentences.check(SENTENCES, "no path", [said.replace(name, "FILTER")])
    said = documented.refusal(f"bedplate_cluster_file | bedplate.cluster.{name}{argument}", "/none.bedplate.yml")
    assert said.startswith(f"{name}: /none.bedplate.yml:1: ")


def test_a_topology_that_is_older_than_the_cluster_file_is_told_with_the_way_to_renew_it(monkeypatch):
    told = []
    monkeypatch.setattr("ansible.utils.display.Display.warning", lambda _self, text, **_more: told.append(text))
    expression = "bedplate_cluster_file | bedplate.cluster.slurm_topology(text, '/x/topology.conf')"
    text = "SwitchName=a Nodes=gpu[01-02],old1\nSwitchName=b Nodes=old2\nSwitchName=t Switches=a,b\n"
    assert template(expression, text=text) == "SwitchName=a Nodes=gpu[01-02]\nSwitchName=t Switches=a\n"
    (warning,) = told
    for word in ("/x/topology.conf", "old[1-2]", "gpu[03-04]", "playbooks/fabric_topology.yml"):
        assert word in warning
    told.clear()
    fits = "# made of the fabric\nSwitchName=a Nodes=gpu[01-04] LinkSpeed=1\n"
    assert template(expression, text=fits) == fits
    assert told == []


KEPT = {"slurm": ["NodeName=old1 NodeAddr=10.213.0.99 CPUs=2"], "gres": ["NodeName=old1 Name=gpu Count=2"]}
MORE = {"slurm": ["NodeName=old02 CPUs=2", *KEPT["slurm"]], "gres": []}


@pytest.mark.parametrize(
    ("in_use", "kept"),
    [
        (KEPT, [*KEPT["slurm"]]),
        ([KEPT, MORE], [*KEPT["slurm"], "NodeName=old02 CPUs=2"]),
        ([MORE, KEPT], [*KEPT["slurm"], "NodeName=old02 CPUs=2"]),
        ([{}, {"unreachable": True, "msg": "timed out"}, KEPT], [*KEPT["slurm"]]),
        ([{"configured": False}], []),
        ({"configured": True, "slurm": []}, []),
        (None, []),
    ],
)
def test_what_stays_comes_from_one_controller_or_from_many(in_use, kept):
    files = template("bedplate_cluster_file | bedplate.cluster.slurm_files(in_use)", in_use=in_use)
    lines = files["slurm.conf"].splitlines()
    assert [line for line in lines if line.startswith("NodeName=old")] == kept


@pytest.mark.parametrize("answers", [[{}, {"configured": False}], [{"configured": False}, {"unreachable": True}]])
def test_a_new_controller_alone_does_not_guess_what_the_others_keep(answers):
    with pytest.raises(AnsibleError, match="slurm_files: 1 of 2 controllers"):
        template("bedplate_cluster_file | bedplate.cluster.slurm_files(in_use)", in_use=answers)
    fresh = [{"configured": False}, {"configured": False}]
    assert template("bedplate_cluster_file | bedplate.cluster.slurm_files(in_use)", in_use=fresh)
    known = [{}, {"configured": True, "slurm": []}]
    assert template("bedplate_cluster_file | bedplate.cluster.slurm_files(in_use)", in_use=known)


@pytest.mark.parametrize("name", ["slurm_files", "slurm_daemons"])
@pytest.mark.parametrize("answers", [[], {}, [{}], [{"skipped": True, "changed": False}], [{"unreachable": True}]])
def test_a_controller_that_was_not_asked_is_no_controller_without_jobs(name, answers):
    said = documented.refusal(f"bedplate_cluster_file | bedplate.cluster.{name}(in_use)", str(LAB), in_use=answers)
    asked = len(answers) if isinstance(answers, list) else 1
    assert said.startswith(f"{name}: {asked} of {asked} controllers ")
    if answers == [{}]:
        sentences.check(SENTENCES, "a controller that was not asked", [said.replace(name, "FILTER")])


@pytest.mark.parametrize("name", ["slurm_files", "slurm_daemons"])
def test_a_controller_that_cannot_say_what_its_jobs_need_stops_the_others(name):
    down = "slurmctld is down"
    answers = [KEPT, {"failed": True, "msg": down}]
    said = documented.refusal(f"bedplate_cluster_file | bedplate.cluster.{name}(in_use)", str(LAB), in_use=answers)
    assert said.startswith(f"{name}: ")
    assert said.endswith(f": {down}")
    sentences.check(SENTENCES, "a controller that cannot say what its jobs need", [said.replace(name, "FILTER")])


def test_the_release_is_looked_at_before_anything_changes():
    plays = yaml.safe_load((ROOT / SCHEDULER).read_text())
    names = [play["tasks"][0].get("vars", {}).get("__entry") for play in plays]
    assert names.index("release") < names.index("database")
    release = plays[names.index("release")]
    # With one that refuses, none goes on.
    assert (release["hosts"], release["max_fail_percentage"]) == ("slurm_database:slurm_controllers", 0)


def test_jobs_are_asked_for_before_anything_changes():
    first = yaml.safe_load((ROOT / SCHEDULER).read_text())[0]
    assert (first["hosts"], first["max_fail_percentage"]) == ("slurm_controllers", 0)
    assert [task["vars"]["__entry"] for task in first["tasks"]] == ["acting", "in_use"]


LACKS = {"kind": "node-hardware", "where": "profiles.sim.gpus.devices", "expected": "a", "found": "b", "remedy": "c"}


@pytest.mark.parametrize(
    ("in_use", "hardware", "counted", "refusing", "fine"),
    [
        ({}, {}, [], [], ""),
        ({"count": "", "new": ""}, {}, [], [], ""),
        ({"count": "gpu[01-02]", "new": ""}, {"counted": True, "findings": []}, ["gpu01", "gpu02"], [], "gpu[01-02]"),
        (
            {"count": "gpu[01-02]", "new": ""},
            {"counted": True, "findings": [LACKS]},
            ["gpu01", "gpu02"],
            ["ctl1", "ctl2"],
            "",
        ),
        ({"count": "gpu[01-02]", "new": ""}, {"unreachable": True}, ["gpu01", "gpu02"], [], ""),
        ({"count": "gpu[01-02]", "new": ""}, {"counted": False, "findings": []}, ["gpu01", "gpu02"], [], ""),
        ({"count": "gpu01", "new": "gpu01"}, {"counted": True, "failed": True, "findings": [LACKS]}, ["gpu01"], [], ""),
    ],
)
def test_nodes_are_counted_before_anything_changes(in_use, hardware, counted, refusing, fine):
    """The plays of the phase scheduler that choose their hosts by answers."""
    plays = yaml.safe_load((ROOT / SCHEDULER).read_text())
    chosen = [number for number, play in enumerate(plays) if "bedplate.cluster.slurm_" in play["hosts"]]
    hostvars = {"ctl1": {}, "ctl2": {"__slurm_in_use": in_use}} | {
        name: {"__slurm_hardware": hardware} for name in ("gpu01", "gpu02")
    }
    variables = {"hostvars": hostvars, "groups": {"slurm_controllers": ["ctl1", "ctl2"]}}
    hosts = [template(plays[number]["hosts"].strip("{} "), **variables) for number in chosen]
    # The last play compares packages: nobody, without a packaging and users of the cluster's own.
    assert hosts == [counted, refusing, [], []]
    assert template("hostvars | bedplate.cluster.slurm_counted(['ctl1', 'ctl2'])", **variables) == fine
    assert [plays[number].get("max_fail_percentage") for number in chosen] == [None, 0, None, 0]
    assert plays[chosen[0]]["ignore_unreachable"]
    database = next(number for number, play in enumerate(plays) if play.get("hosts") == "slurm_database")
    assert max(chosen) < database


OTHERS = {"kind": "other-controllers", "where": "services.controllers", "expected": "a", "found": "b, where jobs run"}
ASKED = {"counted": True, "findings": [], "others": [], "silent": False}


@pytest.mark.parametrize(
    ("first", "second", "configured", "asked_again"),
    [
        (ASKED, {"unreachable": True}, False, ""),
        ({**ASKED, "silent": True}, {"unreachable": True}, False, "gpu02"),
        ({**ASKED, "silent": True}, ASKED, False, ""),
        ({"unreachable": True}, {"unreachable": True}, False, "gpu[01-02]"),
        ({}, {"failed": True, "msg": "no python"}, False, "gpu[01-02]"),
        ({}, {}, True, ""),
    ],
)
def test_a_first_controller_needs_the_nodes_that_may_have_jobs(first, second, configured, asked_again):
    in_use = {"configured": configured, "count": "gpu[01-02]", "new": "gpu[01-02]"}
    hostvars = {
        "ctl1": {"__slurm_in_use": in_use},
        "gpu01": {"__slurm_hardware": first},
        "gpu02": {"__slurm_hardware": second},
    }
    text = template("hostvars | bedplate.cluster.slurm_refusal(['ctl1'])", hostvars=hostvars)
    assert (f"controller: {asked_again}." in text) if asked_again else text == ""


@pytest.mark.parametrize(
    ("answers", "first"),
    [
        ([{"configured": False, "has_state": False}], True),
        ([{"configured": False, "has_state": True}], False),
        ([{"configured": True, "has_state": False}], True),
        ([{"configured": True, "has_state": True}], False),
        ([{"configured": True}], False),
        ([{"configured": True, "has_state": False}, {"unreachable": True}], True),
        ([{"configured": True, "has_state": False}, {"configured": True, "has_state": True}], False),
        ([{"configured": False, "has_state": False}, {"configured": True}], False),
        ([{}], False),
    ],
)
def test_controllers_without_files_and_state_start_without_a_job(answers, first):
    hostvars = {f"ctl{number}": {"__slurm_in_use": one} for number, one in enumerate(answers)}
    expression = "bedplate_cluster_file | bedplate.cluster.slurm_node_hardware('gpu01', hostvars, hostvars)"
    assert template(expression, hostvars=hostvars)["first_start"] is first


@pytest.mark.parametrize("own", ["", "SwitchName=all Nodes=gpu[01-04]\n"], ids=["planned", "own"])
def test_the_controllers_of_a_run_write_the_same_whoever_answered(own: str):
    """The expressions of roles/slurm/vars/main.yml, on a run's own host variables."""
    expressions = of_the_role()
    loader = DataLoader()
    inventory = InventoryManager(loader=loader, sources=["ctl1,ctl2,ctl3,ctl4,gpu01,"])
    inventory.add_group("slurm_controllers")
    variables = VariableManager(loader=loader, inventory=inventory)
    answers = {"ctl1": KEPT, "ctl2": {"slurm": [], "gres": []}, "ctl3": {"unreachable": True, "msg": "no"}}
    for name in ["ctl1", "ctl2", "ctl3", "ctl4"]:
        inventory.groups["slurm_controllers"].add_host(inventory.get_host(name))
        if name in answers:
            variables.set_nonpersistent_facts(name, {"__slurm_in_use": answers[name]})
    found = []
    for name in ["ctl1", "ctl2", "ctl4"]:
        host = {
            **variables.get_vars(host=inventory.get_host(name)),
            **{key: trust_as_template(value) for key, value in expressions.items()},
            "hostvars": HostVars(inventory=inventory, variable_manager=variables, loader=loader),
            "bedplate_cluster_file": str(LAB),
            "__slurm_topology": own,
        }
        found.append(Templar(loader, variables=host).template(trust_as_template("{{ __slurm_files }}")))
    assert KEPT["slurm"][0] in found[0]["slurm.conf"]
    assert KEPT["gres"][0] in found[0]["gres.conf"]
    assert found[1:] == found[:1] * 2
    assert ("SwitchName=spine" in found[0]["topology.conf"]) is not bool(own)
    assert found[0]["topology.conf"].endswith(own)


DIGEST = hashlib.sha256(b"a").hexdigest()


@pytest.mark.parametrize(
    ("answers", "changed"),
    [
        ([], []),
        ([{}, {"skipped": True}], []),
        ([{"files": {"slurm.conf": DIGEST}, "loaded": True}], []),
        ([{"files": {"slurm.conf": DIGEST}, "loaded": False}], ["slurm.conf"]),
        ([{"files": {"slurm.conf": DIGEST}, "loaded": True}, {"files": {}}], ["slurm.conf"]),
        ([{"files": {"slurm.conf": "0"}, "loaded": True}, {}], ["slurm.conf"]),
    ],
)
def test_a_file_changes_that_one_of_the_controllers_does_not_have_so(answers, changed):
    expression = "files | bedplate.cluster.slurm_changed_files(answers)"
    assert template(expression, files={"slurm.conf": "a"}, answers=answers) == changed


@pytest.mark.parametrize(
    ("answers", "outside"),
    [
        ({"ctl1": {}, "ctl2": {}}, []),
        ({"ctl2": {"up": ["ctl1", "ctl2"]}}, ["ctl1"]),
        ({"ctl2": {"up": ["ctl2"]}}, []),
        ({"ctl1": {"unreachable": True}, "ctl2": {"up": ["ctl1", "ctl2"]}}, ["ctl1"]),
        ({"ctl1": {"up": ["ctl1", "old"]}, "ctl2": {"up": ["ctl1", "ctl2"]}}, []),
    ],
)
def test_a_controller_that_is_up_and_was_not_asked_is_outside_of_the_run(answers, outside):
    hostvars = {name: {"__slurm_in_use": answer} for name, answer in answers.items()}
    expression = "hostvars | bedplate.cluster.slurm_controllers_outside(['ctl1', 'ctl2'])"
    assert template(expression, hostvars=hostvars) == outside


DONE = {"changed": False}


@pytest.mark.parametrize(
    ("primary", "standby", "written"),
    [
        (DONE, DONE, True),
        (DONE, {}, False),
        ({}, DONE, False),
        (DONE, {"unreachable": True, "changed": False}, False),
        ({"failed": True, "changed": False}, {"skipped": True, "changed": False}, False),
    ],
)
def test_controllers_are_written_when_each_of_them_is(primary, standby, written):
    skipped = {"skipped": True, "changed": False}
    hostvars = {
        "ctl1": {"__slurm_primary_written": primary, "__slurm_standby_written": skipped} if primary else {},
        "ctl2": {"__slurm_primary_written": skipped, "__slurm_standby_written": standby} if standby else {},
    }
    expression = "hostvars | bedplate.cluster.slurm_controllers_written(['ctl1', 'ctl2'])"
    assert template(expression, hostvars=hostvars) is written
    assert template("hostvars | bedplate.cluster.slurm_controllers_written([])", hostvars=hostvars) is False


@pytest.mark.parametrize("files", [DONE, {"failed": True, "changed": False}])
def test_a_stopped_primary_is_written_when_its_files_are(files):
    skipped = {"skipped": True, "changed": False}
    hostvars = {
        "ctl1": {"__slurm_primary_written": skipped, "__slurm_primary_files": files},
        "ctl2": {"__slurm_standby_written": DONE},
    }
    expression = "hostvars | bedplate.cluster.slurm_controllers_written(['ctl1', 'ctl2'])"
    assert template(expression, hostvars=hostvars) is ("failed" not in files)


def test_without_a_group_of_controllers_a_host_has_its_own_answer():
    expressions = of_the_role()
    variables = {"groups": {}, "inventory_hostname": "me", "hostvars": {"me": {"__slurm_in_use": KEPT}}}
    named = {key: trust_as_template(value) for key, value in expressions.items()}
    assert template("__slurm_kept", **variables, **named) == [KEPT]


@pytest.mark.parametrize(
    ("second", "own", "refused"),
    [
        (ASKED, {}, ""),
        ({"unreachable": True}, {}, "gpu02"),
        ({"unreachable": True}, {"slurm_compute_new_controllers": True}, ""),
        # Slurm has the node as it is: what it lacks is no reason.
        ({**ASKED, "findings": [LACKS]}, {}, ""),
        ({**ASKED, "others": [OTHERS]}, {}, "where jobs run"),
        ({**ASKED, "others": [OTHERS]}, {"slurm_compute_new_controllers": True}, ""),
    ],
)
@pytest.mark.parametrize("beside", [{"unreachable": True}, {}])
def test_controllers_that_have_lost_their_state_need_all_nodes(second, own, refused, beside):
    hostvars = {
        "ctl1": {"__slurm_in_use": {"configured": True, "has_state": False, "count": "gpu[01-02]", "new": ""}, **own},
        "ctl2": {"__slurm_in_use": beside},
        # A new machine without slurmd does not speak for others.
        "gpu01": {"__slurm_hardware": ASKED},
        "gpu02": {"__slurm_hardware": second},
    }
    text = template("hostvars | bedplate.cluster.slurm_refusal(['ctl1', 'ctl2'])", hostvars=hostvars)
    assert (refused in text) if refused else text == ""
    assert LACKS["where"] not in text


@pytest.mark.parametrize("allowed", [True, "true", "yes", False, "false", None])
def test_new_controllers_are_refused_unless_that_is_allowed(allowed):
    own = {} if allowed is None else {"slurm_compute_new_controllers": allowed}
    hostvars = {
        "ctl1": {"__slurm_in_use": {"configured": False, "count": "gpu[01-02]", "new": "gpu01"}, **own},
        "gpu01": {"__slurm_hardware": {**ASKED, "others": [OTHERS]}},
        "gpu02": {"__slurm_hardware": {**ASKED, "findings": [LACKS]}},
    }
    text = template("hostvars | bedplate.cluster.slurm_refusal(['ctl1'])", hostvars=hostvars)
    assert ("where jobs run" in text) == (allowed in (False, "false", None))
    assert LACKS["where"] in text


def test_a_new_controller_beside_one_with_files_needs_no_node():
    """It gets the jobs with StateSaveLocation, which both share."""
    answers = [{"configured": False, "count": "gpu01", "new": "gpu01"}, {"configured": True, "count": "", "new": ""}]
    hostvars = {f"ctl{number}": {"__slurm_in_use": one} for number, one in enumerate(answers)} | {"gpu01": {}}
    assert template("hostvars | bedplate.cluster.slurm_refusal(['ctl0', 'ctl1'])", hostvars=hostvars) == ""


def test_what_fails_on_one_controller_ends_the_run_on_all():
    """Otherwise the other one changes its files, and the nodes lose scripts that files in force still name."""
    plays = yaml.safe_load((ROOT / SCHEDULER).read_text())
    (play,) = (one for one in plays if one.get("name") == "Deploy the controllers")
    assert play["max_fail_percentage"] == 0


GROUPS = {
    "slurm_controllers": ["ctl1"],
    "compute_nodes": ["n1", "ctl1"],
    "slurm_login": ["l1", "n1"],
    "slurm_database": ["db1"],
}


@pytest.mark.parametrize(
    ("variables", "hosts"),
    [({}, []), ({"slurm_packages": "schedmd"}, ["n1", "l1"]), ({"slurm_users": {"slurm": {"uid": 9}}}, ["n1", "l1"])],
)
def test_nodes_are_compared_first_where_an_inventory_states_a_packaging(variables, hosts):
    expression = "{'ctl1': variables} | bedplate.cluster.slurm_hosts_to_compare(groups)"
    assert template(expression, variables=variables, groups=GROUPS) == hosts
    assert template("{} | bedplate.cluster.slurm_hosts_to_compare({})") == []
    assert template("{} | bedplate.cluster.slurm_hosts_to_compare(groups)", groups=GROUPS) == []


@pytest.mark.parametrize(
    ("change", "hosts"),
    [("", []), ("  packages: schedmd\n", ["gpu01", "gpu02", "login1"]), ("  users: {slurm: {uid: 99}}\n", ["gpu01", "gpu02", "login1"])],
)  # fmt: skip
def test_nodes_are_compared_first_where_a_cluster_file_states_a_packaging(tmp_path, change, hosts):
    text = (ROOT / "molecule/slurm/slurm.bedplate.yml").read_text()
    path = tmp_path / "slurm.bedplate.yml"
    path.write_text(text.replace('  version: "24.11"\n', '  version: "24.11"\n' + change))
    expression = (
        "{'ctl1': {'bedplate_cluster_file': bedplate_cluster_file}} | bedplate.cluster.slurm_hosts_to_compare(groups)"
    )
    assert template(expression, str(path), groups=GROUPS) == hosts
