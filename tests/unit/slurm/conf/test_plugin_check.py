"""Plugins that slurmctld does not load itself."""

from __future__ import annotations

from pathlib import Path

import pytest

from ansible_collections.bedplate.cluster.plugins.module_utils.common.command import NOT_STARTED, Outcome
from ansible_collections.bedplate.cluster.plugins.module_utils.slurm.conf import plugin_check


class Controller:
    """A slurmctld whose PluginDir has one plugin, and a sbatch that ends as the test says."""

    def __init__(self, directory: Path, conf: str, cgroup: str = "", *, rc: int | None = 0, said: str = "") -> None:
        self.conf = directory / "slurm.conf"
        self.conf.write_text(conf)
        self.conf.with_name("cgroup.conf").write_text(cgroup)
        (directory / "task_cgroup.so").touch()
        self.answer = Outcome(rc, "", said)

    def ask(self, *arguments: str, until: float) -> str | None:
        assert arguments == ("show", "config")
        return f"PluginDir               = {self.conf.parent}\n"

    def call(self, *words: str, until: float) -> Outcome:
        return self.answer


@pytest.mark.parametrize(
    ("conf", "cgroup", "missing"),
    [
        ("TaskPlugin=task/cgroup", "", []),
        ("TaskPlugin=task/cgroup,task/zz", "", ["TaskPlugin=task/zz"]),
        ("JobAcctGatherType=jobacct_gather/none", "CgroupPlugin=cgroup/autodetect", []),
        ("ClusterName=a", "CgroupPlugin=cgroup/zz", ["CgroupPlugin=cgroup/zz"]),
    ],
)
def test_each_plugin_that_is_not_installed_is_named(tmp_path: Path, conf: str, cgroup: str, missing: list[str]) -> None:
    found = plugin_check.missing_plugins(Controller(tmp_path, conf, cgroup))
    assert [one.partition(":")[0] for one in found] == missing


@pytest.mark.parametrize(
    ("rc", "said", "errors"),
    [
        (0, "sbatch: error: of no consequence\n", []),
        (1, "sbatch: error: cli_filter/zz: no such plugin\n", ["cli_filter/zz: no such plugin"]),
        (139, "core dumped\n", ["core dumped"]),
        (None, "stopped after 20 s", []),
        (NOT_STARTED, "sbatch: No such file or directory", []),
    ],
)
def test_commands_that_do_not_start_say_why(tmp_path: Path, rc: int | None, said: str, errors: list[str]) -> None:
    controller = Controller(tmp_path, "CliFilterPlugins=cli_filter/zz", rc=rc, said=said)
    assert plugin_check.client_errors(controller, 1.0) == errors
