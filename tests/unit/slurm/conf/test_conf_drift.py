"""The configuration that a machine has for Slurm against the rendered one."""

from __future__ import annotations

from pathlib import Path

import pytest

from ansible_collections.bedplate.cluster.plugins.module_utils.slurm.conf import conf_drift
from tests.kit import sentences

SENTENCES = Path(__file__).parents[1] / "sentences.txt"
TEXT = (
    "ClusterName=a\nKillWait=30\nSlurmctldHost=ctl1\nNodeName=n1 RealMemory=960\nPartitionName=p Nodes=n1 Default=YES\n"
)
CGROUP = "ConstrainDevices=yes\n"


def found(
    tmp_path: Path, texts: dict[str, str], directory: str = "/etc/slurm", records: bool = True
) -> list[tuple[str, str, str]]:
    place = tmp_path / (directory or "run/slurm/conf").lstrip("/")
    place.mkdir(parents=True)
    for name, text in texts.items():
        (place / name).write_text(text)
    expected = {"directory": directory, "files": {"slurm.conf": TEXT, "cgroup.conf": CGROUP}, "records": records}
    findings = list(conf_drift.findings(str(tmp_path), expected))
    assert {one.kind for one in findings} <= {"slurm-conf"}
    return [(one.where, one.expected, one.found) for one in findings]


def test_comments_case_and_order_are_no_difference(tmp_path: Path) -> None:
    text = "# mine\nkillwait = 30\nClusterName=a\n" + TEXT.partition("KillWait=30\n")[2]
    assert found(tmp_path, {"slurm.conf": text, "cgroup.conf": CGROUP}) == []


@pytest.mark.parametrize(
    ("texts", "difference"),
    [
        ({"cgroup.conf": "ConstrainDevices=no\n"}, ("/etc/slurm/cgroup.conf ConstrainDevices", "yes", "no")),
        ({"slurm.conf": TEXT + "KillWait=60\n"}, ("/etc/slurm/slurm.conf KillWait", "30", "60")),
        ({"slurm.conf": TEXT + "FirstJobId=7\n"}, ("/etc/slurm/slurm.conf FirstJobId", "not set", "7")),
        ({"slurm.conf": TEXT.replace("KillWait=30\n", "")}, ("/etc/slurm/slurm.conf KillWait", "30", "not set")),
        ({"slurm.conf": TEXT + "NodeName=n2\n"}, ("/etc/slurm/slurm.conf line", "no such line", "NodeName=n2")),
        ({"slurm.conf": TEXT.replace("NodeName=n1 RealMemory=960\n", "")},
         ("/etc/slurm/slurm.conf line", "NodeName=n1 RealMemory=960", "no such line")),
    ],
)  # fmt: skip
def test_each_option_and_line_that_differs_is_named(
    tmp_path: Path, texts: dict[str, str], difference: tuple[str, str, str]
) -> None:
    assert found(tmp_path, {"slurm.conf": TEXT, "cgroup.conf": CGROUP, **texts}) == [difference]


def test_what_a_site_includes_counts(tmp_path: Path) -> None:
    (tmp_path / "etc/slurm").mkdir(parents=True)
    texts = {"slurm.conf": TEXT + "Include more.conf\n", "more.conf": "KillWait=99\n", "cgroup.conf": CGROUP}
    (tmp_path / "etc/slurm").rmdir()
    assert found(tmp_path, texts) == [("/etc/slurm/slurm.conf KillWait", "30", "99")]


def test_a_node_is_compared_by_options_since_controllers_keep_lines_for_jobs(tmp_path: Path) -> None:
    text = TEXT.replace("KillWait=30", "KillWait=31") + "NodeName=gone\n"
    differences = found(tmp_path, {"slurm.conf": text, "cgroup.conf": CGROUP}, directory="", records=False)
    assert differences == [("/run/slurm/conf/slurm.conf KillWait", "30", "31")]


def test_a_node_without_a_configuration_is_a_warning(tmp_path: Path) -> None:
    (finding,) = conf_drift.findings(str(tmp_path), {"directory": "", "files": {"slurm.conf": TEXT}, "records": False})
    assert (finding.severity, finding.where) == ("warning", "/run/slurm/conf")
    sentences.check(SENTENCES, "a node without a configuration", [finding])


def test_a_controller_without_a_configuration_lacks_each_option(tmp_path: Path) -> None:
    expected = {"directory": "/etc/slurm", "files": {"cgroup.conf": CGROUP}, "records": True}
    found = [(one.where, one.found, one.severity) for one in conf_drift.findings(str(tmp_path), expected)]
    assert ("/etc/slurm/cgroup.conf ConstrainDevices", "not set", "error") in found


def test_a_file_that_cannot_be_read_is_named(tmp_path: Path) -> None:
    texts = {"slurm.conf": TEXT + "Include none.conf\n", "cgroup.conf": CGROUP}
    ((where, expected, problem),) = found(tmp_path, texts)
    assert where == "/etc/slurm/slurm.conf"
    assert "none.conf" in problem
    sentences.check(SENTENCES, "what is expected of a file that cannot be read", [expected])
