# SPDX-License-Identifier: GPL-3.0-or-later
"""Write and read the reasons with which bedplate takes nodes out of service: `bedplate:<kind>:<run>: <text> [<sum>]`.

The reason alone decides who owns a drained node. The user who set it does not: people and bedplate both act as root, and Slurm becomes the
user when it adds words of its own, such as ` : reboot issued`. The sum of the text at its end shows that nobody has edited it: an edited
reason is a person's.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from hashlib import sha256

EDIT, ROLL, UPGRADE, RECOVER, PROVISION, HEALTH, BURNIN = KINDS = (
    "edit",
    "roll",
    "upgrade",
    "recover",
    "provision",
    "health",
    "burnin",
)
"""What bedplate takes nodes out of service for."""
TAKEN_OUT = frozenset({"DRAIN", "DOWN", "FAIL"})
"""States of a node with one of which a reason counts: without accounting storage Slurm keeps the reason of a node that it resumes."""
_START = "bedplate:"
_RUN = r"[0-9a-z][0-9a-z_-]*"
_FORM = re.compile(rf"{_START}({'|'.join(KINDS)}):({_RUN}): (.*) \[([0-9a-f]{{4}})\]\Z")
# Of releases before this form, which had no sum. A run that was killed during an update may have left one.
_EARLIER_EDIT = re.compile(rf"{_START}(edit):({_RUN}):(\d{{4}}-\S+Z .*)\Z")
# Slurm appends these in its own name, since 22.05: power_save.c, node_mgr.c and ping_nodes.c.
_WORDS = "reboot issued|reboot timed out|reboot complete|ResumeTimeout reached|Not responding"
_ADDITION = re.compile(rf" : ({_WORDS})\Z")
# Reasons from Slurm's sources. slurmd and slurmstepd set theirs as root, so the user alone does not identify them.
_SLURMS_REASONS = re.compile(
    r"Not responding|Low (socket|CPUs|RealMemory|TmpDisk)|CoreSpec differ|\w+(/\w+)?(:\S+)? (count|type) |Invalid GRES|"
    r"Could not unpack|Reported active features|RestrictedCores|Node unexpectedly|NO NETWORK|Bad core count|Duplicate jobid|"
    r"Prolog|Epilog|batch job complete failure|Job env setup error|Job step not running|Kill task failed|"
    r"SlurmdSpoolDir|switch_g_job_postfini|Cannot collect energy|Failed to set|ResumeTimeout|reboot timed out"
)
# In a text, a bracket could look like the sum or like the user that scontrol prints; a bar separates columns of sinfo.
_PLAIN = str.maketrans("[]|", "()/")


@dataclass(frozen=True)
class DrainReason:
    """A reason of bedplate's own: what it is for, the run that set it, its text, and what Slurm has added, oldest first."""

    kind: str
    run: str
    text: str
    added: tuple[str, ...] = ()

    def is_of(self, kind: str, run: str) -> bool:
        """Return whether this run of this kind set it."""
        return (self.kind, self.run) == (kind, run)


def reservation_name(kind: str, run: str) -> str:
    """Return the name of a run's reservation.

    >>> reservation_name("roll", "3f2a9c1b")
    'bedplate_roll_3f2a9c1b'
    """
    return f"bedplate_{kind}_{run}"


def written(kind: str, run: str, text: str) -> str:
    """Return the reason of a run.

    A text of more lines becomes one line, without square brackets and bars. In the words of Slurm's additions blanks become hyphens: Slurm
    replaces a whole reason that has the words which it appends (seen with 22.05.8), and the node would belong to no run.

    Raises ValueError for a kind or a run that could not be read back.

    >>> written("roll", "3f2a9c1b", "driver 580.95.05, reboot")
    'bedplate:roll:3f2a9c1b: driver 580.95.05, reboot [750a]'
    >>> written("roll", "r1", "failed: DOWN (x : reboot issued)")[:48]
    'bedplate:roll:r1: failed: DOWN (x : reboot-issue'
    """
    if kind not in KINDS:
        raise ValueError(f"kind {kind!r}; allowed: {', '.join(KINDS)}")
    if not re.fullmatch(_RUN, run):
        raise ValueError(f"run {run!r}; allowed: lower-case letters, digits, _ and -")
    line = re.sub(_WORDS, lambda found: found[0].replace(" ", "-"), " ".join(text.translate(_PLAIN).split()))
    return f"{_START}{kind}:{run}: {line} [{_sum(kind, run, line)}]"


def read(reason: str) -> DrainReason | None:
    """Return a reason of bedplate's own, None for any other one, which is a person's or Slurm's.

    >>> read("bedplate:roll:3f2a9c1b: driver 580.95.05, reboot [750a] : reboot issued").added
    ('reboot issued',)
    >>> read("bedplate:roll:3f2a9c1b: driver 580.95.05, reboot, and keep it for Ann [750a]") is None
    True
    """
    own, added = without_additions(reason)
    if found := _FORM.match(own):
        kind, run, text, digits = found.groups()
        return DrainReason(kind, run, text, added) if digits == _sum(kind, run, text) else None
    if found := _EARLIER_EDIT.match(own):
        return DrainReason(found[1], found[2], found[3], added)
    return None


def without_additions(reason: str) -> tuple[str, tuple[str, ...]]:
    """Return a reason without what Slurm has appended, and what that is.

    >>> without_additions("fan : reboot issued : reboot timed out")
    ('fan', ('reboot issued', 'reboot timed out'))
    """
    added: list[str] = []
    while found := _ADDITION.search(reason):
        added.insert(0, found[1])
        reason = reason[: found.start()]
    return reason, tuple(added)


def is_slurms(reason: str) -> bool:
    """Return whether a reason is one with which Slurm itself takes a node out of service.

    >>> is_slurms("Node unexpectedly rebooted"), is_slurms("fan is loud")
    (True, False)
    """
    return _SLURMS_REASONS.match(reason) is not None


def _sum(kind: str, run: str, text: str) -> str:
    return sha256(f"{kind}:{run}: {text}".encode()).hexdigest()[:4]
