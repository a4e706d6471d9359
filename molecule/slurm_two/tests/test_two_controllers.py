# SPDX-License-Identifier: GPL-3.0-or-later
"""Two controllers with one StateSaveLocation: they start from nothing, and are refused storage of their own; one refuses for both."""

from __future__ import annotations

from pathlib import Path

from tests.kit.controllers import BOTH_UP, CONTROLLERS, STATE, apply, on, ping, run

FILES = "cat /etc/slurm/slurm.conf /etc/default/slurmctld /var/lib/bedplate/files.json; ls -A /etc/slurm"


def test_both_are_up_and_the_proof_leaves_nothing():
    assert [ping(name) for name in CONTROLLERS] == [BOTH_UP, BOTH_UP]
    assert ".bedplate" not in on("ctl1", f"ls -A {STATE}")


def test_what_one_refuses_reaches_neither(tmp_path: Path):
    before = [on(name, FILES) for name in CONTROLLERS]
    on("ctl2", "install -m 755 /bin/true /srv/prolog")  # the primary has none
    result = run(tmp_path, "SlurmctldTimeout: 20", "SlurmctldTimeout: 20\n    PrologSlurmctld: /srv/prolog")
    assert result.returncode != 0
    assert [on(name, FILES) for name in CONTROLLERS] == before
    assert ping("ctl1") == BOTH_UP


def fresh(state: str = "") -> None:
    """Take the controllers back to where they have packages and nothing else."""
    for name in CONTROLLERS:
        on(name, "systemctl disable --now slurmctld; rm -rf /etc/slurm/* /etc/default/slurmctld /var/lib/bedplate")
    for name in CONTROLLERS:
        on(name, f"find {STATE} -mindepth 1 -delete; {state}")


def test_a_first_start_on_storage_of_their_own_is_refused_and_on_one_directory_works(tmp_path: Path):
    # As at a site where the storage is not mounted: under the same name each has a directory of its own.
    fresh("install -d -o slurm /srv/own")
    result = run(tmp_path, STATE, "/srv/own")
    assert result.returncode != 0
    assert all(f"{name}: /srv/own" in result.stdout for name in CONTROLLERS)
    assert [on(name, "ls -A /etc/slurm /srv/own") for name in CONTROLLERS] == ["/etc/slurm:\n\n/srv/own:\n"] * 2
    assert run(tmp_path, "", "", "--limit=ctl1").returncode != 0
    assert on("ctl1", "ls -A /etc/slurm") == ""

    # A primary that takes its time: a standby which starts meanwhile, on an empty directory, blocks both.
    drop_in = "/run/systemd/system/slurmctld.service.d"
    on(
        "ctl1",
        f"mkdir -p {drop_in}; printf '[Service]\\nExecStartPre=/bin/sleep 3\\n' >{drop_in}/slow.conf; systemctl daemon-reload",
    )
    apply(tmp_path)
    on("ctl1", f"rm -r {drop_in}; systemctl daemon-reload")
    assert [ping(name) for name in CONTROLLERS] == [BOTH_UP, BOTH_UP]
