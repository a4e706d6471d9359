"""What a machine of rpm lacks, and what its versionlock keeps; molecule/gpu_dnf asks the real rpm and the real dnf."""

from __future__ import annotations

from pathlib import Path

import pytest

from ansible_collections.bedplate.cluster.plugins.module_utils.common.command import Outcome
from ansible_collections.bedplate.cluster.plugins.module_utils.primitives.packages.dpkg import MissingPackages
from ansible_collections.bedplate.cluster.plugins.module_utils.primitives.packages.rpm import (
    LOCKS,
    NONE,
    RpmError,
    followers_locks,
    held,
    installed,
    installed_names,
    is_version,
    lock,
    locks,
    mismatched,
    missing_packages,
    spec,
    specs,
)

RECORDS = """\
libml\t3:580.1-1.el9
package nothing is not installed
dkms\t0:3.2-1.el9
kernel-core\t0:5.14.0-1.el9
kernel-core\t0:5.14.0-2.el9
"""


class Records:
    """An rpm that knows RECORDS, and what it was asked."""

    def __init__(self, outcome: Outcome | None = None) -> None:
        self.outcome = outcome or Outcome(1, RECORDS, "")
        self.calls: list[list[str]] = []

    def run(self, argv: list[str]) -> Outcome:
        self.calls.append(argv)
        return self.outcome


@pytest.mark.parametrize(
    "wanted",
    ["libml", "libml=3:580.1-1.el9", "libml=3:580.1-*", "libml=580.1-*", "dkms=3.2", "dkms=0:3.2-1.el9", "dkms=*",
     # One of several is the one.
     "kernel-core=5.14.0-1.el9", "kernel-core=5.14.0-2.el9"],
)  # fmt: skip
def test_what_is_installed_as_asked_is_not_lacking(wanted: str) -> None:
    assert missing_packages([wanted], Records().run) == MissingPackages([], [])


@pytest.mark.parametrize(
    "wanted",
    ["nothing", "libml=2:580.1-*", "libml=3:580.10-*", "libml=3:580.1-1", "dkms=1:3.2-*", "kernel-core=5.14.0-3.el9"],
)
def test_another_epoch_version_or_release_is_lacking(wanted: str) -> None:
    assert missing_packages([wanted], Records().run).missing == [wanted]


def test_everything_is_asked_in_one_call_and_nothing_in_none() -> None:
    records = Records()
    missing_packages(["libml=3:580.1-*", "dkms", "nothing"], records.run)
    (call,) = records.calls
    assert call[-4:] == ["--", "libml", "dkms", "nothing"]
    assert (missing_packages([], records.run), mismatched([], records.run), installed_names([], records.run)) == (
        MissingPackages([], []),
        [],
        [],
    )
    assert len(records.calls) == 1


def test_followers_are_brought_along_only_where_they_are_and_are_others() -> None:
    followers = ["libml=3:590.1-*", "dkms=3.2-*", "nothing=1-1"]
    assert mismatched(followers, Records().run) == ["libml=3:590.1-*"]
    assert installed_names([*followers, "kernel-core"], Records().run) == ["libml", "dkms", "kernel-core"]


def test_patterns_are_asked_of_rpm_as_it_knows_them_and_judged_here() -> None:
    records = Records()
    assert installed_names(["kernel-[!0-9]*", "lib*=3:1-*"], records.run) == ["kernel-core", "libml"]
    assert records.calls[0][-3:] == ["--all", "kernel-**", "lib*"]
    assert installed(["kernel-[!c]*"], records.run) == {}
    assert mismatched(["lib*=3:590.1-*"], records.run) == ["libml=3:590.1-*"]


def test_followers_of_any_version_are_locked_at_the_one_that_is_there() -> None:
    lines = followers_locks(["lib*", "dkms=3.2-*", "kernel-core", "nothing"], Records().run)
    assert lines == ["libml-3:580.1-1.el9.*", "kernel-core-0:5.14.0-1.el9.*", "kernel-core-0:5.14.0-2.el9.*"]
    assert followers_locks([], Records().run) == []


@pytest.mark.parametrize(
    "outcome",
    [
        Outcome(127, "", "rpm: No such file or directory"),
        Outcome(None, "", "stopped after 120 s"),
        Outcome(1, "package libml is not installed\n", "error: cannot open Packages database in /var/lib/rpm"),
    ],
)
def test_a_machine_whose_records_cannot_be_read_is_no_machine_without_packages(outcome: Outcome) -> None:
    with pytest.raises(RpmError, match=r"rpm -q: (?s:.*)gpu_stack\.os"):
        installed(["libml"], Records(outcome).run)


def test_dnf_is_asked_for_versions_with_a_release() -> None:
    assert specs(["dkms", "nvlsm=*", "libml=3:580.1-*", "cuda-toolkit=12.9.*"]) == [
        "dkms", "nvlsm", "libml-3:580.1-*", "cuda-toolkit-12.9.*-*",
    ]  # fmt: skip
    assert spec("kernel-core", "5.14.0-1.el9") == "kernel-core-5.14.0-1.el9"
    assert lock("cuda-toolkit", "12.9.*") == "cuda-toolkit-12.9.*-*.*"
    assert is_version("0:12.9.1-1", "12.9.*")


def test_locks_are_those_that_dnf_reads(tmp_path: Path) -> None:
    configuration, lines = tmp_path / "versionlock.conf", tmp_path / "versionlock.list"
    assert locks(configuration) == frozenset()
    lines.write_text("# a comment\n\nlibml-3:580.1-*.*\n  !kernel\n")
    for enabled, there in (("1", {"libml-3:580.1-*.*", "!kernel"}), ("0", set()), ("perhaps", set())):
        configuration.write_text(f"[main]\nenabled = {enabled}\nlocklist = {lines}\n")
        assert locks(configuration) == there
    configuration.write_text(f"[main]\nenabled=1\nlocklist={tmp_path}/nowhere\n")
    assert locks(configuration) == frozenset()
    configuration.write_text("enabled=1\n")
    assert locks(configuration) == frozenset()
    assert LOCKS.startswith("/etc/dnf/plugins/")


def test_a_lock_of_another_version_holds_nothing() -> None:
    lines = frozenset([lock("libml", "3:580.1-*"), "!kernel", lock("libother", "1-1")])
    wanted = {"libml": "3:580.1-*", "libother": "2-1", "kernel": "5-1", "nvlsm": "*", "libcfg": "3:580.1-*"}
    assert held(wanted, lines) == {"libml", "kernel", "nvlsm"}
    assert held(dict.fromkeys(("kernel", "libml"), NONE), lines) == {"kernel"}
