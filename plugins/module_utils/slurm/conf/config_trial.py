# SPDX-License-Identifier: GPL-3.0-or-later
"""Test with the real slurmctld whether it accepts a configuration, without a change to the running one.

slurmctld is started on a rewritten copy in a scratch directory, in a network namespace of its own, so that it reaches neither a node nor
the database. DROPPED lists the options that are left out. Everything that depends on them, above all accounting (QOS, accounts, TRES,
multifactor priority), is not tested.
"""

from __future__ import annotations

import contextlib
import os
import pwd
import re
import shutil
import socket
import tempfile
import time
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path

from ...common import command
from ...common.command import Daemon, Outcome
from .gres_check import check_gres
from .network_namespace import NetworkNamespace
from .plugin_check import client_errors, missing_plugins

# A package may lack a plugin; use the first one that loads, since none of them is under test.
AUTHENTICATION = (("auth/none", "cred/none"), ("auth/none", "cred/munge"), ("auth/munge", "cred/munge"))
_NO_PLUGIN = re.compile(
    r"\b(?:auth|cred)/\w+\b.*looking at all files|cannot find (?:auth|cred) plugin|find plugin for (?:auth|cred)/"
)

# Lines of slurm.conf that describe one object with many options; every other option is a line of its own.
_LINES = ("nodename", "partitionname", "nodeset", "downnodes", "frontendname", "poweraction", "include")

# Options that are left out of the candidate's slurm.conf, by reason.
DROPPED: dict[str, str] = {
    "belongs to this host and this run": (
        "SlurmctldHost ControlMachine ControlAddr BackupController BackupAddr SlurmctldAddr SlurmctldPort SlurmUser "
        "StateSaveLocation SlurmctldPidFile SlurmctldLogFile SlurmctldDebug SlurmctldSyslogDebug SlurmSchedLogFile "
        "SlurmSchedLogLevel"
    ),
    "needs a key or a service": (
        "AuthType AuthInfo AuthAltTypes AuthAltParameters CredType CryptoType TLSType TLSParameters CertgenType "
        "CertgenParameters CertmgrType CertmgrParameters JobCompType JobCompHost JobCompLoc JobCompParams JobCompPass "
        "JobCompPassScript JobCompPort JobCompUser"
    ),
    "needs slurmdbd": (
        "AccountingStorageType AccountingStorageHost AccountingStorageBackupHost AccountingStorageExternalHost "
        "AccountingStoragePort AccountingStoragePass AccountingStorageUser AccountingStorageParameters "
        "AccountingStorageEnforce AccountingStorageTRES PriorityType PriorityWeightTRES"
    ),
    "slurmctld would run it": (
        "SlurmctldPrimaryOnProg SlurmctldPrimaryOffProg ResumeProgram ResumeFailProgram SuspendProgram PrologSlurmctld "
        "EpilogSlurmctld MailProg"
    ),
}
# preempt/qos needs slurmdbd. Slurm refuses either of the two without the other.
_PREEMPTION = ("preempttype", "preemptmode")
_BY_QOS = re.compile(r"^\s*PreemptType\s*=\s*[\"']?preempt/qos\b", re.IGNORECASE | re.MULTILINE)
_DROPPED_FROM_PARTITIONS = ("QOS", "AllowQos", "DenyQos", "AllowAccounts", "DenyAccounts", "TRESBillingWeights")

# Names cannot be resolved in the network namespace, and slurmctld tries each for ten seconds.
_NUMERIC_ADDRESS = re.compile(r"\sNodeAddr\s*=\s*[0-9\[][0-9.,:\[\]-]*(\s|$)|\sNodeAddr\s*=\s*[0-9a-f:]+(\s|$)", re.I)

# Directory in which Slurm expects its files.
_IN_FORCE = Path("/etc/slurm")

# Message of the daemon when the configuration is in force.
_RUNNING = "Running as primary controller"
_MISSING = re.compile(r"cannot stat file (\S+): .*retrying")
_SAYS = re.compile(r"^(?:slurmctld: |\[[^\]]*\] )?(?P<text>(?:fatal|error): .*)$", re.MULTILINE)
# Messages caused by the rewriting or by the empty scratch directory; they do not concern the user.
_OURS = re.compile(
    r"Configured MailProg is invalid"
    r"|Could not open .* state file|No .* state file|Cannot recover|state file .* to recover"
    r"|last_tran_id|assoc_mgr|federation|not responding|slurm_receive_msgs?|Communication connection failure"
    r"|slurm_set_addr: Unable to resolve|get_addr_info: getaddrinfo|_set_slurmd_addr|auth_none|auth/none"
    r"|Job accounting information gathered, but not stored|you have \w+ for it not to be stored"
    r"|mpi/pmix|pmi/pmix|MPI: Cannot create context"
    r"|NOTE: Trying backup (?:\w+ )?state save file|High latency for 1000 calls to gettimeofday"
)


@dataclass
class Result:
    """Result of the test, from the daemon's messages."""

    tested: bool
    accepted: bool = False
    message: str = ""
    version: str = ""
    fatal: list[str] = field(default_factory=list)
    errors: list[str] = field(default_factory=list)
    topology: list[str] = field(default_factory=list)
    nodes: int = 0
    partitions: int = 0
    isolated: bool = False
    auth: str = ""
    log: str = ""


def rewrite(text: str, settings: Mapping[str, str], loopback_nodes: bool = False) -> str:
    """Return slurm.conf for the scratch directory: without the options in DROPPED, and with the settings."""
    dropped = {name.lower() for names in DROPPED.values() for name in names.split()} | {
        name.lower() for name in settings
    }
    by_qos = set(_PREEMPTION if _BY_QOS.search(text) else ())
    dropped |= by_qos
    lines = []
    for line in re.sub(r"\\\n", " ", text).splitlines():
        key = re.match(r"\s*([A-Za-z0-9]+)", line)
        first = key[1].lower() if key else ""
        if first == "partitionname":
            line = _without(line, {name.lower() for name in _DROPPED_FROM_PARTITIONS} | by_qos)
        elif first == "nodename" and (loopback_nodes or not _NUMERIC_ADDRESS.search(line)):
            line = _without(line.partition("#")[0], {"nodeaddr"}) + " NodeAddr=127.0.0.1"
        elif first not in _LINES:
            line = _without(line, dropped)
        lines.append(line)
    lines += [f"{name}={value}" for name, value in settings.items()]
    return "\n".join(lines) + "\n"


def _without(line: str, names: set[str]) -> str:
    """Remove options from a line."""

    def keep(match: re.Match[str]) -> str:
        return "" if match[1].lower() in names else match[0]

    code, hash_, comment = line.partition("#")
    return re.sub(r'([A-Za-z0-9]+)\s*=\s*("[^"]*"|\'[^\']*\'|\S+)', keep, code) + hash_ + comment


def run(files: Mapping[str, str], slurmctld: str | None = None, deadline: float = 60.0) -> Result:
    """Start slurmctld on a candidate configuration and return the result."""
    daemon = slurmctld or shutil.which("slurmctld", path=os.environ.get("PATH", "") + ":/usr/sbin:/sbin")
    if not daemon:
        return Result(tested=False, message="not tested: slurmctld is not installed")
    bad = [name for name in files if "/" in name or name.startswith(".") or not name or name == "slurmdbd.conf"]
    if bad or "slurm.conf" not in files:
        what = f"{', '.join(map(repr, bad))}: not a file name of slurmctld" if bad else "no slurm.conf"
        return Result(
            tested=True,
            message=f"{what}. Allowed: slurm.conf and the names of the files that slurmctld reads beside it",
        )
    until = time.monotonic() + deadline
    result = Result(tested=False)
    for auth, cred in AUTHENTICATION:
        result = _attempt(files, daemon, auth, cred, until)
        if not _NO_PLUGIN.search(result.log):
            break
    gres = check_gres(files)
    if gres:
        result.fatal += gres
        result.message = "; ".join(gres if result.accepted else [result.message, *gres])
        result.accepted = False
    return result


def _attempt(files: Mapping[str, str], daemon: str, auth: str, cred: str, until: float) -> Result:
    """Run the daemon once, in a temporary scratch directory."""
    isolation = NetworkNamespace()
    scratch = Path(tempfile.mkdtemp(prefix="bedplate-slurm-"))
    try:
        user = _slurm_user(files["slurm.conf"])
        port = isolation.port()
        settings = {
            "SlurmctldHost": f"{socket.gethostname().split('.')[0]}(127.0.0.1)",
            "SlurmctldPort": str(port),
            "SlurmUser": user.pw_name,
            "StateSaveLocation": str(scratch / "state"),
            "SlurmctldPidFile": str(scratch / "slurmctld.pid"),
            "SlurmctldLogFile": str(scratch / "slurmctld.log"),
            "SlurmctldDebug": "info",
            "AuthType": auth,
            "CredType": cred,
            "MailProg": "/bin/true",
        }
        conf = scratch / "conf"
        for directory in (conf, scratch / "state"):
            directory.mkdir()
        for name, content in files.items():
            text = rewrite(content, settings, not isolation.network) if name == "slurm.conf" else content
            (conf / name).write_text(text, encoding="utf-8")
        for path in _beside(conf):
            shutil.copy(path, conf / path.name)
        for path in [scratch, *scratch.rglob("*")]:
            os.chown(path, user.pw_uid, user.pw_gid)
        return _observe(_Controller(daemon, scratch, isolation), auth, until)
    finally:
        shutil.rmtree(scratch, ignore_errors=True)


def _beside(conf: Path) -> list[Path]:
    """Return the site's scripts beside slurm.conf, above all job_submit.lua: slurmctld does not start without them."""
    return [path for path in _IN_FORCE.glob("*.lua") if path.is_file() and not (conf / path.name).exists()]


def _slurm_user(conf: str) -> pwd.struct_passwd:
    """Return the user of the candidate, if it exists and this process may change to it."""
    names = re.findall(r"^\s*SlurmUser\s*=\s*(\S+)", conf, re.MULTILINE | re.IGNORECASE)
    if names and os.geteuid() == 0:
        with contextlib.suppress(KeyError):  # the user may be created later
            return pwd.getpwuid(int(names[-1])) if names[-1].isdigit() else pwd.getpwnam(names[-1])
    return pwd.getpwuid(os.geteuid())


class _Controller:
    """slurmctld in its scratch directory."""

    def __init__(self, program: str, scratch: Path, isolation: NetworkNamespace) -> None:
        self.program = program
        self.scratch = scratch
        self.isolation = isolation
        self.conf = scratch / "conf" / "slurm.conf"
        self.environment = {"SLURM_CONF": str(self.conf)}
        self.daemon = Daemon(
            [program, "-D", "-f", str(self.conf)],
            scratch / "output",
            cwd=scratch,
            environment=self.environment,
            enter=isolation.enter,
        )

    def log(self) -> str:
        """Return its output so far; the daemon writes to the log file what it also writes to the terminal."""
        return (self.scratch / "output").read_text(encoding="utf-8", errors="replace")

    def ask(self, *arguments: str, until: float) -> str | None:
        """Run scontrol on it and return the output; None if it fails."""
        done = self.call("scontrol", *arguments, until=until)
        return done.stdout if done.code == 0 else None

    def call(self, *words: str, until: float) -> Outcome:
        """Run one of Slurm's commands on it."""
        seconds, pid = max(1.0, until - time.monotonic()), self.daemon.process.pid
        return command.run(words, seconds, environment=self.environment, enter=lambda: self.isolation.join(pid))

    def version(self) -> str:
        """Return its version, which it does not report if it stops early."""
        words = command.run([self.program, "-V"], 10.0).stdout.split()
        return words[-1] if words else ""


def _observe(controller: _Controller, auth: str, until: float) -> Result:
    """Wait until the daemon runs or gives up, and query the configuration that it read."""
    result = Result(tested=True, isolated=controller.isolation.network, auth=auth)
    up = False
    try:
        while time.monotonic() < until and controller.daemon.process.poll() is None:
            log = controller.log()
            up = up or _RUNNING in log
            if _MISSING.search(log):
                break  # slurmctld would wait for the file for a minute
            if up and "is UP" in (controller.ask("ping", until=until) or ""):
                result.accepted = True
                break
            time.sleep(0.05)
        if result.accepted:
            _understood(result, controller, until)
            result.fatal = [*missing_plugins(controller), *client_errors(controller, until)]
    finally:
        controller.daemon.stop()
    result.log = controller.log().replace(str(controller.scratch / "conf") + "/", "")
    said = [match["text"] for match in _SAYS.finditer(result.log) if not _OURS.search(match["text"])]
    result.fatal += [line[7:] for line in said if line.startswith("fatal: ")]
    result.errors = list(dict.fromkeys(line[7:] for line in said if line.startswith("error: ")))
    result.version = controller.version()
    missing = _MISSING.search(result.log)
    if missing:
        result.fatal = [f"{missing[1]} does not exist, but slurm.conf names it"]
        result.errors = [line for line in result.errors if not _MISSING.search(line)]
    result.accepted = result.accepted and not result.fatal
    if result.accepted:
        result.message = f"slurmctld {result.version} accepts it: {result.nodes} nodes, {result.partitions} partitions"
    elif result.fatal:
        result.message = f"slurmctld {result.version} refuses it: {'; '.join([*result.errors, *result.fatal])}"
    elif controller.daemon.process.returncode is not None and time.monotonic() < until:
        last = " / ".join(result.log.strip().splitlines()[-5:])
        result.message = (
            f"slurmctld ended with status {controller.daemon.process.returncode} and no error message: {last}"
        )
    else:
        result.message = "slurmctld did not start before the deadline: " + " / ".join(
            result.log.strip().splitlines()[-5:]
        )
    return result


def _understood(result: Result, controller: _Controller, until: float) -> None:
    """Fill in the reports of scontrol."""
    result.topology = (controller.ask("show", "topology", until=until) or "").splitlines()
    for kind, key in (("nodes", "NodeName="), ("partitions", "PartitionName=")):
        listing = controller.ask("-o", "show", kind[:-1], until=until) or ""
        setattr(result, kind, sum(line.startswith(key) for line in listing.splitlines()))
