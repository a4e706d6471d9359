"""The table of another value for every key, and how edits are put together."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

import pytest
import yaml

from ansible_collections.bedplate.cluster.plugins.module_utils.slurm.jobs import hardware_in_use, kept_lines
from ansible_collections.bedplate.cluster.plugins.module_utils.slurm.jobs.removed_records import Retained
from ansible_collections.bedplate.cluster.plugins.module_utils.slurm.live.slurmctld_report import Live
from ansible_collections.bedplate.cluster.plugins.plugin_utils.cluster import ClusterFileError, load
from ansible_collections.bedplate.cluster.plugins.plugin_utils.cluster.schema.cluster_file import CLUSTER_FILE
from ansible_collections.bedplate.cluster.plugins.plugin_utils.cluster.schema.fields import rows
from ansible_collections.bedplate.cluster.plugins.plugin_utils.fabric.plan import buildable
from ansible_collections.bedplate.cluster.plugins.plugin_utils.fabric.plan.wiring import TemplateError
from ansible_collections.bedplate.cluster.plugins.plugin_utils.slurm.render import slurm_files
from ansible_collections.bedplate.cluster.plugins.plugin_utils.slurm.tables import options
from tests.kit import ROOT
from tests.kit.edits import SIZE, VERSION, Edit, batches, bisect, edited, edits, fits, place_of, table

WORDS = {"to", "with", "at", "refused", "waits", "apart", "alone", "by", "not"}
KEYS = {row[0] for row in rows(CLUSTER_FILE)}


@pytest.mark.parametrize("kind", options.PLACES)
def test_every_option_has_an_entry_and_no_entry_has_no_option(kind):
    assert set(table()[kind]) == set(options.known(VERSION, kind))


def test_every_key_of_the_cluster_file_has_an_entry():
    assert set(table()["cluster_file"]) == KEYS


def test_an_entry_has_a_value_or_a_place_or_a_reason():
    for kind, entries in table().items():
        for name, entry in entries.items():
            assert len({"to", "by", "not"} & set(entry)) == 1, (kind, name)
            assert set(entry) <= WORDS, (kind, name)
            assert len(str(entry.get("not", "long enough"))) > 10, (kind, name)
            if "by" in entry:
                assert "to" in table()["cluster_file"][entry["by"]], (kind, name)


def test_most_keys_are_edited():
    count = sum(len(entries) for entries in table().values())
    assert count > 540
    assert len(edits()) > 400


def test_values_are_such_that_bedplate_takes_them():
    for kind in ("slurm", "partition", "cgroup", "slurmdbd"):
        values = {
            name: "/bin/true" if str(entry["to"]).startswith("@") else entry["to"]
            for name, entry in table()[kind].items()
            if entry.get("to") is not None and not entry.get("refused") and name != "CgroupPlugin"
        }
        assert options.check(VERSION, kind, values) == []


BASE = yaml.safe_load((ROOT / "molecule/slurm_keys/slurm_keys.bedplate.yml").read_text())
FOR_WORDS = {"script": "/bin/true", "cgroup": "cgroup/v1", "free": "10.215.14.254", "login2": "10.215.14.8"}
# Only a running slurmctld knows: no reader of the cluster file refuses these.
BY_SLURMCTLD = {
    *(f"slurm.{name}" for name in ("FrontendName", "SelectType", "LaunchType", "RoutePlugin")),
    "cluster_file.slurm.version",
}
# Only a machine knows: its packages and users.
BY_MACHINES = {f"cluster_file.slurm.{name}" for name in ("packages", "users.slurm", "users.munge")}
BY_JOBS = {
    *(f"cluster_file.{name}" for name in ("cluster", "services.controllers", "services.database")),
    *("slurm.StateSaveLocation", "slurm.SlurmdSpoolDir", "slurm.MaxJobCount"),
}


def test_the_cluster_file_takes_and_refuses_what_the_table_says(tmp_path: Path):
    path = tmp_path / "edited.bedplate.yml"
    for batch in batches(edits()):
        text = yaml.safe_dump(edited(BASE, batch, {**FOR_WORDS, "gpu01": "10.215.14.11"}), sort_keys=False)
        path.write_text(text)
        try:
            cluster = load(str(path))
            slurm_files(cluster)
            refusal = "\n".join(buildable.fabric_mistakes(cluster))
        except (ClusterFileError, TemplateError) as error:
            refusal = str(error)
        names = {str(one) for one in batch}
        if batch[0].refused and not names & (BY_SLURMCTLD | BY_JOBS | BY_MACHINES):
            assert [str(one) for one in batch if one.refused not in refusal] == [], refusal
        else:
            assert not refusal or names & BY_JOBS, (names, refusal)


def test_what_waits_for_jobs_is_reported_as_the_table_says():
    group = hardware_in_use.Group("gpu01", ["CoresPerSocket 8 -> 4"], hardware_in_use.JOBS, ["7"], "", 8, 8192)
    changing = kept_lines.changing_notes([group])
    leaving = kept_lines.leaving_notes(Retained(nodes={"gpu02": ["7"]}), Live())
    for one in edits():
        removes_node = str(one) == "cluster_file.racks.<name>.nodes"
        assert not one.waits or one.waits in (leaving if removes_node else changing)[0], one


def edit(name: str, value: object = 1, **words: object) -> Edit:
    return Edit("slurm", name, {place_of("slurm", name): value}, **words)


def test_batches_have_all_edits_once_and_none_that_exclude_each_other():
    made = batches(edits())
    assert sorted(str(one) for batch in made for one in batch) == sorted(str(one) for one in edits())
    for batch in made:
        assert len(batch) <= SIZE
        assert len(batch) == 1 or not any(one.alone for one in batch)
        assert len({(bool(one.refused), bool(one.waits)) for one in batch}) == 1
        assert all(fits(one, [other for other in batch if other is not one]) for one in batch)


def test_edits_that_write_another_value_to_one_place_are_apart():
    one, other, same = edit("A"), edit("A", 2), edit("A")
    assert not fits(one, [other])
    assert fits(one, [same])
    inside = Edit("cluster_file", "x", {("slurm", "options"): {}})
    assert not fits(one, [inside])


def test_an_edit_writes_its_value_and_what_goes_with_it():
    base = {"slurm": {"options": {"A": 1}}, "racks": {"r1": {"row": "x"}}}
    both = Edit(
        "slurm", "B", {("slurm", "options", "B"): "@script", ("racks", "r1", "row"): None, ("new", "key"): ["@a"]}
    )
    result = edited(base, [both], {"script": "/x", "a": "1"})
    assert result == {"slurm": {"options": {"A": 1, "B": "/x"}}, "racks": {"r1": {}}, "new": {"key": ["1"]}}
    assert base["racks"] == {"r1": {"row": "x"}}


def test_none_takes_away_what_bedplate_sets():
    assert edited({}, [edit("A", None)], {}) == {"slurm": {"options": {"A": None}}}


@pytest.mark.parametrize("guilty", [{"0"}, {"7"}, {"2", "5"}, {str(number) for number in range(8)}])
def test_halving_finds_each_edit_that_hurts(guilty):
    asked = []

    def hurts(part: Sequence[Edit]) -> bool:
        asked.append(part)
        return any(one.name in guilty for one in part)

    found = bisect([edit(str(number)) for number in range(8)], hurts)
    assert {one.name for part in found for one in part} == guilty
    assert len(asked) <= 14


def test_two_edits_that_hurt_only_together_are_one_part():
    found = bisect([edit("0"), edit("1"), edit("2"), edit("3")], lambda part: len(part) == 4)
    assert [len(part) for part in found] == [4]
