# SPDX-License-Identifier: GPL-3.0-or-later
"""Every pair of Slurm's table is allowed or refused, and every other reason against an upgrade is in one error, with its hosts."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest

from ansible_collections.bedplate.cluster.plugins.module_utils.slurm.live.release_window import RELEASES
from ansible_collections.bedplate.cluster.plugins.plugin_utils.upgrade.upgrade_refusals import refusals
from ansible_collections.bedplate.cluster.plugins.plugin_utils.upgrade.upgrade_site import Site

GIB = 1 << 30


def look(release: str = "24.11", **more: Any) -> dict[str, Any]:
    return {
        "installed": {"slurm-client": f"{release}.5-4"},
        "changes": {"slurm-client": [f"{release}.5-4", "26.05.5-1"]},
        "removed": [],
        "download": 20 << 20,
        "download_free": 10 * GIB,
        "old": {},
        "old_missing": [],
        "plugins": [],
        "daemons": {},
        "folders": {},
        "state": 0,
        "database": 0,
        "free": 10 * GIB,
        "database_free": 10 * GIB,
        "problems": [],
        **more,
    }


CORE = {"daemons": {"slurmdbd.service": True, "slurmctld.service": True}, "state": 1 << 20, "database": GIB}


def site(release: str = "24.11", new: str = "26.05", **looks: dict[str, Any]) -> Site:
    found = {"ctl1": look(release, **CORE), "n1": look(release), "n2": look(release), "login1": look(release), **looks}
    return Site("c.yml", new, ("ctl1",), ("ctl1",), ("n1", "n2"), ("login1",), found)


def the_only(found: Site, without_return: bool = False) -> str:
    texts = refusals(found, without_return)
    assert len(texts) == 1, texts
    return texts[0]


def test_a_sound_site_is_upgraded():
    assert refusals(site(), False) == []


# From Slurm's documentation: to 24.11 and later three releases back, to older ones two; never down.
BACK = {"22.05": 2, "23.02": 2, "23.11": 2, "24.05": 2, "24.11": 3, "25.05": 3, "25.11": 3, "26.05": 3}


@pytest.mark.parametrize("new", BACK)
@pytest.mark.parametrize("old", RELEASES)
def test_each_pair_of_slurms_table(old: str, new: str):
    steps = RELEASES.index(new) - RELEASES.index(old)
    found = refusals(site(old, new), False)
    if 0 <= steps <= BACK[new]:
        assert found == []
        return
    (text,) = found
    assert text.startswith(f"ctl1,login1,n[1-2]: Slurm {old} is installed, and c.yml has slurm.version {new}: ")
    assert ("newer" in text) == (steps < 0)
    assert ("too old" in text) == (steps > 0)


def test_the_next_step_is_named_where_a_release_is_too_old():
    assert "Upgrade to 25.11 first" in the_only(site("24.05"))
    assert "Upgrade to 24.11 first" in the_only(site("23.02"))


@pytest.mark.parametrize(
    ("changed", "hosts", "text"),
    [
        ({"n1": look("27.11")}, "n1", "an unknown release; allowed: 24.11, 25.05, 25.11"),
        ({"n1": look("25.05")}, "n1", "Slurm 25.05 is installed, newer than that of the controllers"),
        ({"n1": look("26.05")}, "n1", "Slurm 26.05 is installed, newer than that of the controllers"),
        ({"ctl1": look(**{**CORE, "installed": {}})}, "ctl1", "no Slurm is installed"),
        ({"ctl1": look(**{**CORE, "daemons": {"slurmctld.service": False}})}, "ctl1", "slurmctld.service does not run"),
        ({"ctl1": look(**{**CORE, "free": GIB})}, "ctl1", "copies of state and database need 1.1 GiB"),
        ({"ctl1": look(**{**CORE, "database_free": GIB})}, "ctl1", "a second copy of the database"),
        ({"n1": look(download_free=1 << 20), "n2": look(download_free=1 << 20)}, "n[1-2]", "downloads need 84 MiB"),
        ({"n1": look(removed=["site-tool"])}, "n1", "apt would remove site-tool"),
        ({"n1": look(problems=["apt-get install: no version"])}, "n1", "apt-get install: no version"),
        ({"n1": look(plugins=["/usr/local/lib/slurm/spank_pyxis.so"])}, "n1", "plugstack.conf requires"),
        (
            {"ctl1": look(**{**CORE, "old_missing": ["slurmctld=24.11.5-4"]})},
            "ctl1",
            "no way back: slurmctld=24.11.5-4",
        ),
    ],
)
def test_each_reason_names_its_hosts(changed: dict[str, Any], hosts: str, text: str):
    found = the_only(site(**changed))
    assert found.startswith(f"{hosts}: ")
    assert text in found


def test_a_way_back_without_packages_is_the_operators_choice():
    found = site(ctl1=look(**{**CORE, "old_missing": ["slurmctld=24.11.5-4"]}))
    assert refusals(found, without_return=True) == []


def test_pyxis_that_bedplate_builds_is_no_obstacle_and_another_plugin_is():
    plugins = {"plugins": ["/usr/local/lib/slurm/spank_pyxis.so", "/opt/site.so"]}
    found = replace(site(n1=look(**plugins)), builds_pyxis=frozenset(["n1"]))
    assert "/opt/site.so" in the_only(found)


def test_a_controller_without_an_answer_stops_the_upgrade_and_a_node_without_one_does_not():
    found = site()
    looks = {host: one for host, one in found.looks.items() if host != "n1"}
    assert refusals(replace(found, looks=looks, lost={"n1": "no answer by SSH"}), False) == []
    looks.pop("ctl1")
    text = the_only(replace(found, looks=looks, lost={"ctl1": "no answer by SSH"}))
    assert text.startswith("ctl1: no answer by SSH. Database and controllers must all be in the run")


def test_a_controller_that_is_a_node_is_upgraded_by_hand():
    assert "controller or database, and node" in the_only(replace(site(), nodes=("ctl1", "n1", "n2")))


def test_different_releases_of_database_and_controllers_need_the_record_of_an_upgrade():
    looks = {"db1": look("26.05", **CORE), "ctl1": look(**CORE), "n1": look()}
    found = Site("c.yml", "26.05", ("db1",), ("ctl1",), ("n1",), (), looks)
    assert the_only(found).startswith("ctl1,db1: database and controllers have different releases (24.11, 26.05)")
    begun = {**looks["db1"], "folders": {"24.11-26.05": {"dumped": {}, "installing": {}}}}
    assert refusals(replace(found, looks={**looks, "db1": begun}), False) == []


def test_a_refusal_of_slurm_in_use_and_all_others_are_one_error():
    found = replace(site(n1=look("27.11"), n2=look(removed=["x"])), refusal="jobs would be lost")
    assert len(refusals(found, False)) == 3
