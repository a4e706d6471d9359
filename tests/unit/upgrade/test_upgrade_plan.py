# SPDX-License-Identifier: GPL-3.0-or-later
"""The plan has the hosts that need the release, an unfinished upgrade is continued, and the preview names all of it."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

from ansible_collections.bedplate.cluster.plugins.plugin_utils.upgrade.upgrade_plan import plan, preview
from ansible_collections.bedplate.cluster.plugins.plugin_utils.upgrade.upgrade_site import Site
from ansible_collections.bedplate.cluster.plugins.plugin_utils.upgrade.upgrade_variables import choices

CHOICES = choices({"upgrade_serial": 2})


def look(release: str, folders: dict[str, Any] | None = None) -> dict[str, Any]:
    changes = {} if release == "26.05" else {"slurm-client": [f"{release}.5-4", "26.05.5-1"]}
    return {
        "installed": {"slurm-client": f"{release}.5-4"},
        "changes": changes,
        "download": 20 << 20,
        "state": 1 << 20,
        "database": 1 << 30,
        "free": 10 << 30,
        "folders": folders or {},
    }


def site(core: str, nodes: str, folders: dict[str, Any] | None = None) -> Site:
    looks = {"ctl1": look(core, folders), "n1": look(nodes), "n2": look(nodes), "login1": look(nodes)}
    return Site(
        "c.yml", "26.05", ("ctl1",), ("ctl1",), ("n1", "n2", "n3"), ("login1",), looks, {"n3": "no answer by SSH"}
    )


def test_a_whole_upgrade():
    found = plan(site("24.11", "24.11"), CHOICES, is_preview=True)
    assert (found["old"], found["new"], found["resume"]) == ("24.11", "26.05", False)
    assert (found["core"], found["nodes"], found["others"]) == (["ctl1"], ["n1", "n2"], ["login1"])
    assert (found["left"], found["serial"]) == ({"n3": "no answer by SSH"}, ["2"])
    text = preview(found)
    for part in (
        "from Slurm 24.11 to 26.05",
        "database ctl1, controllers ctl1",
        "ctl1: copies need 1.0 GiB (1.0 GiB of them twice), 10.0 GiB free; downloads 20 MiB",
        "3. nodes, 2 at once, under their jobs: n[1-2]",
        "4. login and REST hosts: login1",
        "packages of ctl1,login1,n[1-2]: slurm-client 24.11.5-4 -> 26.05.5-1",
        "left: n3: no answer by SSH",
    ):
        assert part in text


def test_slurmctld_that_came_up_after_the_call_was_killed_has_served():
    begun = {"24.11-26.05": {"archived": {}, "installing": {}}}

    def has_served(release: str, runs: bool, folders: dict[str, Any] = begun) -> bool:
        looks = {"ctl1": {**look(release, folders), "daemons": {"slurmctld.service": runs}}}
        return Site("c.yml", "26.05", ("ctl1",), ("ctl1",), (), (), looks).has_served()

    assert has_served("26.05", runs=True)
    assert not has_served("26.05", runs=False)
    # After a way back whose folder was not set aside.
    assert not has_served("24.11", runs=True)
    assert not has_served("26.05", runs=True, folders={})


def test_copies_are_made_again_where_no_package_is_new():
    begun = {"24.11-26.05": {"dumped": {}, "installing": {}}}
    assert plan(site("24.11", "24.11", begun), CHOICES, False)["untouched"] == ["ctl1"]
    assert plan(site("26.05", "24.11", begun), CHOICES, False)["untouched"] == []


def test_a_second_call_has_nothing_to_do():
    found = plan(
        site("26.05", "26.05", {"24.11-26.05": {"installing": {}, "served": {}, "finished": {}}}), CHOICES, False
    )
    assert found["pending"] == []
    assert "Nothing is pending" in preview(found)
    assert "left: n3" in preview(found)


def test_nodes_alone_follow_after_a_stopped_call():
    found = plan(site("26.05", "24.11"), CHOICES, False)
    assert (found["core"], found["database"], found["nodes"]) == ([], [], ["n1", "n2"])


def test_an_unfinished_upgrade_is_continued_from_its_own_release():
    found = plan(site("26.05", "24.11", {"24.11-26.05": {"dumped": {}, "installing": {}}}), CHOICES, False)
    assert (found["old"], found["resume"], found["served"], found["core"]) == ("24.11", True, False, ["ctl1"])
    served = plan(site("26.05", "24.11", {"24.11-26.05": {"installing": {}, "served": {}}}), CHOICES, False)
    assert (served["resume"], served["served"]) == (True, True)


def test_an_earlier_upgrade_to_the_same_release_says_nothing_about_this_one():
    """By hand back to an older release and up again: this one has not served, so its way back is open."""
    folders = {"24.11-26.05": {"installing": {}, "served": {}, "finished": {}}, "25.05-26.05": {"installing": {}}}
    found = plan(site("26.05", "25.05", folders), CHOICES, False)
    assert (found["old"], found["resume"], found["served"]) == ("25.05", True, False)


def test_a_rest_host_that_is_a_controller_is_deployed_after_it():
    found = plan(replace(site("24.11", "26.05"), others=("ctl1", "login1")), CHOICES, False)
    assert found["others"] == ["ctl1"]
