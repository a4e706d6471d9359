"""The table of what a changed option does to running jobs."""

from __future__ import annotations

import pytest

from ansible_collections.bedplate.cluster.plugins.module_utils.slurm.jobs.cluster_identity import IDENTITY
from ansible_collections.bedplate.cluster.plugins.plugin_utils.slurm.tables import option_effects
from ansible_collections.bedplate.cluster.plugins.plugin_utils.slurm.tables.option_effects import (
    ENDS_JOBS,
    EffectsError,
    effects,
    ending_jobs,
    parse,
)
from ansible_collections.bedplate.cluster.plugins.plugin_utils.slurm.tables.options import canonical, known

ROW = {"kind": "slurm", "option": "SelectType", "effect": ENDS_JOBS, "seen": "24.11.5", "evidence": "seen"}


def test_every_row_is_of_an_option_that_its_release_knows():
    for one in effects():
        assert canonical(one.kind, one.option) == one.option
        assert one.option in known(one.seen, one.kind)
        assert not one.evidence.endswith(".")


def test_the_rows_are_in_order():
    names = [(one.kind, one.option.lower()) for one in effects()]
    assert names == sorted(names)


def test_what_belongs_to_the_jobs_has_a_row():
    assert set(IDENTITY) <= {one.option for one in ending_jobs("slurm")}


def test_all_mistakes_of_a_table_are_reported():
    rows = [ROW, {**ROW, "option": "selecttype"}, {**ROW, "option": "A", "effect": "hurts"}, {"option": "B"}]
    with pytest.raises(EffectsError) as error:
        parse(rows)
    assert [line.split(":")[0] for line in str(error.value).splitlines()] == [
        "row 2 (selecttype)",
        "row 3 (A)",
        "row 4 (B)",
    ]
    assert option_effects.parse([ROW])[0].effect == ENDS_JOBS
