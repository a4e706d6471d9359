"""Pages that tools write are up to date, and name what exists."""

from __future__ import annotations

import re
from pathlib import Path

import pytest
import yaml

from ansible_collections.bedplate.cluster.plugins.plugin_utils.backup import backup_variables
from ansible_collections.bedplate.cluster.plugins.plugin_utils.bmc import bmc_variables
from ansible_collections.bedplate.cluster.plugins.plugin_utils.fabric.variable_names import VARIABLES
from ansible_collections.bedplate.cluster.plugins.plugin_utils.provision import provision_variables
from ansible_collections.bedplate.cluster.plugins.plugin_utils.recover import recover_variables
from ansible_collections.bedplate.cluster.plugins.plugin_utils.roll import roll_variables
from ansible_collections.bedplate.cluster.plugins.plugin_utils.turn_keys import turn_variables
from ansible_collections.bedplate.cluster.plugins.plugin_utils.upgrade import upgrade_variables
from tools import reference, support
from tools.reference import ROOT, cell, entries_of_part, files_of, shown

BY_ACTIONS = {
    **roll_variables.VARIABLES,
    **recover_variables.VARIABLES,
    **turn_variables.VARIABLES,
    **upgrade_variables.VARIABLES,
    **backup_variables.BACKUP,
    **backup_variables.RESTORE,
    **{name: one for known in bmc_variables.PLAYBOOKS.values() for name, one in known.items()},
}
PAGES = reference.pages()
DATA = yaml.safe_load((ROOT / "tools/playbooks.yml").read_text(encoding="utf-8"))
# The playbook of a phase is validate.yml and the phase.
PLAYBOOKS = {
    path.stem: "".join(
        one.read_text(encoding="utf-8") for one in (path, ROOT / "playbooks/phases" / path.name) if one.exists()
    )
    for path in (ROOT / "playbooks").glob("*.yml")
}
USED = re.compile(
    r"(?<![\w.])(?<!cluster\.)((?:fabric|mirror)_[a-z_]+|gpu_resolve|(?:verify_report|record_profile|pilot|boot_tokens)_file|bedplate_reboot|"
    r"bedplate_serial)\b"
    r"(?= *[|)}]| is | ==)"
)


@pytest.mark.parametrize("path", PAGES, ids=lambda path: str(path.relative_to(ROOT)))
def test_a_page_is_up_to_date(path: Path):
    assert path.read_text(encoding="utf-8") == PAGES[path], "run python -m tools.reference"


def test_the_matrix_of_support_is_up_to_date():
    assert support.PAGE.read_text(encoding="utf-8") == support.page(), "run python -m tools.support"


def test_every_playbook_has_a_summary():
    assert set(DATA["playbooks"]) == set(PLAYBOOKS)


def test_every_variable_of_a_playbook_is_described_and_every_described_one_is_used():
    described = {name: set(row.get("variables") or {}) for name, row in DATA["playbooks"].items()}
    for name, text in PLAYBOOKS.items():
        registered = set(re.findall(r"register: (\w+)", text))
        assert set(USED.findall(text)) - registered <= described[name] | set(DATA["common"]), name
        # A filter reads the first; actions read the others.
        for variable in described[name] - {"bedplate_reboot_batch", *BY_ACTIONS, *provision_variables.VARIABLES}:
            discovers = ("fabric_compare", "fabric_adopt", "fabric_audit", "fabric_routes", "fabric_topology")
            shared = "fabric_discover" if name in discovers else name
            assert variable in text + PLAYBOOKS[shared], (name, variable)


@pytest.mark.parametrize(
    ("playbook", "variables"), [("backup", backup_variables.BACKUP), ("restore", backup_variables.RESTORE)]
)
def test_a_backup_and_a_restore_describe_all_variables_that_they_accept(playbook: str, variables: dict[str, object]):
    assert set(DATA["playbooks"][playbook]["variables"]) == set(variables)


@pytest.mark.parametrize("playbook", bmc_variables.PLAYBOOKS)
def test_the_playbooks_of_bmcs_describe_all_variables_that_they_accept(playbook: str):
    assert set(DATA["playbooks"][playbook]["variables"]) == set(bmc_variables.PLAYBOOKS[playbook])


def test_the_fabric_playbooks_describe_all_variables_that_they_accept():
    described = {variable for row in DATA["playbooks"].values() for variable in row.get("variables") or {}}
    assert {name for name in described if name.startswith("fabric_")} == set(VARIABLES)


def test_files_of_a_part_are_listed_with_their_source():
    document = {
        "sources": [{"path": "/a", "template": "a.j2"}],
        "files": [
            {"path": "/b", "content": "x"},
            {"path": "/c", "state": "absent"},
            {"path": "/d", "state": "directory"},
        ],
    }
    assert list(entries_of_part(document)) == [("/a", "template `a.j2`"), ("/b", "content"), ("/d", "directory")]


def test_a_role_lists_the_files_of_its_parts():
    assert ("/etc/nccl.conf", "rdma.yml", "template `nccl.conf.j2`") in files_of(ROOT / "roles/rdma")


def test_text_of_documentation_is_written_as_a_cell():
    assert cell(["Of C(a|b).", "And V(c)."]) == "Of `a\\|b`. And `c`."
    assert [shown(value) for value in ("", [], 3, {"a": 1})] == ["`''`", "`[]`", "`3`", "`{a: 1}`"]


def test_a_readme_without_marks_is_refused(tmp_path: Path):
    (tmp_path / "README.md").write_text("# role\n")
    with pytest.raises(SystemExit, match="add the lines"):
        reference.readme(tmp_path)


@pytest.mark.parametrize(
    ("row", "error"),
    [
        ({"how": "guessed", "by": ["molecule/slurm"]}, "how is 'guessed'"),
        ({"how": "real", "by": ["molecule/gone"]}, "molecule/gone does not exist"),
        ({"how": "real", "by": ["full-gone"]}, "full-gone has no row"),
    ],
)
def test_a_row_of_support_that_no_test_backs_is_refused(row: dict[str, object], error: str):
    with pytest.raises(support.SupportError, match=error):
        support.line({"subject": "s", "shown": "", "missing": "", **row}, {})


def test_a_failed_target_is_shown_as_failed():
    known = support.results("| `full-gpu` | abc | 2026-01-02 | 12.0, 45 | FAILED (2): 1 failed |\n")
    assert support.runner("full-gpu", known) == "`make full-gpu` (failed at abc, 2026-01-02)"


def test_a_scenario_on_request_is_no_part_of_make_test():
    assert support.runner("molecule/slurm_two", {}).startswith("`make test-full`")
    assert support.runner("molecule/slurm", {}).startswith("`make test`")


def test_the_playbook_that_installs_describes_all_variables_that_it_accepts():
    assert set(DATA["playbooks"]["provision"]["variables"]) == set(provision_variables.VARIABLES)
