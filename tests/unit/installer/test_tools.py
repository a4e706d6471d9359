"""Programs that end well and print something else: functions of the shell stand in for them, and nothing of it is believed."""

from __future__ import annotations

import subprocess
from pathlib import Path

import pytest

from tests.kit.provision.machine import LIB

HASH = "9579c1c470aaa4de88a3373cc648a7ea7612b456800321e6a7f4196a99edc2c0"
PREFIX = "ssh-ed25519 AAAAC3NzaC1lZDI1NTE5AAAAI"
PUBLIC = PREFIX + "x" * 43
HEAD = "-----BEGIN OPENSSH PRIVATE KEY-----"


def shell(folder: Path, code: str) -> tuple[int, str]:
    """Run code after the functions of the installer. Return its exit status and output."""
    parts = " ".join(f'. "{LIB}/{name}.sh";' for name in ("tools", "proofs"))
    begin = (
        f'set -u; cd "{folder}"; RUN="{folder}" CONF="{folder}"; refuse() {{ echo "REFUSED: $*"; exit 1; }}; {parts} '
    )
    done = subprocess.run(["/bin/dash", "-c", begin + code], capture_output=True, text=True, errors="replace")
    return done.returncode, done.stdout


def in_path(name: str, script: str) -> str:
    """Return the code that puts a script before the program of this name: no function of dash has a hyphen."""
    return f"mkdir -p bin; cat >bin/{name} <<'EOF'\n{script}\nEOF\nchmod 755 bin/{name}; PATH=\"$PWD/bin:$PATH\""


def keygen(private: str = HEAD, public: str = f"{PUBLIC} node", shown: str = f"{PUBLIC} node", end: str = ":") -> str:
    """Return the code of an ssh-keygen with these answers."""
    made = f'echo "{private}" >key; echo "{public}" >key.pub; {end}'
    script = f"""#!/bin/sh
case $1 in -y) echo "{shown}" ;; *) {made} ;; esac
"""
    return f'{in_path("ssh-keygen", script)}; tool_host_key key node; echo "$? $PUBLIC"'


def table(*lines: str, label: str = "gpt", size: str = "512") -> str:
    """Return the code that reads these lines of sfdisk, and prints what is found."""
    text = "\\n".join([f"label: {label}", f"sector-size: {size}", *lines, ""])
    return f"sfdisk() {{ printf '{text}'; }}; tool_last_partition t; echo $? $PARTITION $START $LENGTH"


def row(number: object, start: object, size: object) -> str:
    return f"t{number} : start=      {start}, size=    {size}, type=0FC63DAF"


STATED = "Inode: 12   Type: regular    Mode:  0600   Flags: 0x80000\\nUser:     0   Group:     0   Project:     0   Size: 5\\n"
READ = (
    "debugfs() {{ case $2 in dump*) echo text >copy; {dump} ;; *) printf '{stat}'; {end} ;; esac; }}; "
    "tool_debugfs_read d 1 /x copy; echo $? $MODE"
)


def read(dump: str = ":", stat: str = STATED, end: str = ":") -> str:
    """Return the code of a debugfs with these answers."""
    return READ.format(dump=dump, stat=stat, end=end)


WIPEFS = "wipefs() {{ printf '{}'; {}; }}; tool_wipefs d; echo \"$? $TYPES\""
IP = "ip() {{ printf '2: {} {}\\n'; {}; }}; tool_ip_has eth0 10.0.0.1/22; echo $?"
CURL = "curl() {{ printf '{}'; {}; }}; tool_post u b a; echo \"$? $STATUS\""
DATE = "date() {{ printf '{}'; {}; }}; tool_date; echo $?"
SHA = "sha256sum() {{ printf '{}'; {}; }}; tool_sha256 </dev/null; echo $?"
E2FSCK = "e2fsck() {{ printf '{}'; {}; }}; tool_e2fsck d 1; echo $?"
VERSION = "{0}() {{ echo '{1}' >&2; {2}; }}; tool_{0}_version; echo $?"
GOOD = [
    (WIPEFS.format(r"0x0 gpt\n0x1fe PMBR\n0x2ff gpt\n", ":"), "0  gpt PMBR"),
    (IP.format("eth0", "   inet 10.0.0.1/22 scope global eth0", ":"), "0"),
    (CURL.format(r"409\n", ":"), "0 409"),
    (DATE.format(r"1800000000\n", ":"), "0"),
    (SHA.format(rf"{HASH}  -\n", ":"), "0"),
    (E2FSCK.format(r"Pass 1: x\nPass 5: x\n", ":"), "0"),
    (VERSION.format("debugfs", "debugfs 1.47.0 (5-Feb-2023)", ":"), "0"),
    (VERSION.format("e2fsck", "e2fsck 1.47.0 (5-Feb-2023)", ":"), "0"),
    (read(), "0 0600"),
    (keygen(), f"0 {PUBLIC}"),
    (keygen(shown=PUBLIC), f"0 {PUBLIC}"),
    (table(row(1, 2048, 2048), row(2, 8192, 100), row(3, 4096, 50)), "0 2 8192 100"),
    ("is_number 123456789012345; echo $?", "0"),
    (f"is_hash {HASH}; echo $?", "0"),
    ("printf 'one' >f; only_line f; echo $? $LINE", "0 one"),
]
BAD = [
    *(WIPEFS.format(text, ":") for text in (r"gpt\n", r"0x0 gpt x\n", r"0x gpt\n", r"0xg gpt\n", r"1 gpt\n", r"0x0 a;b\n", "0x0")),
    WIPEFS.format("", "return 1"),
    IP.format("eth1", "   inet 10.0.0.1/22 scope", ":"),
    IP.format("eth0", "   inet 10.0.0.1/24 scope", ":"),
    IP.format("eth0", "   inet 110.0.0.1/22 scope", ":"),
    IP.format("eth0", "   inet 10.0.0.1/22 scope", "return 1"),
    *(CURL.format(text, ":") for text in ("", r"000\n", r"2000\n", r"200\n200\n", r"ok\n")),
    CURL.format(r"200\n", "return 1"),
    *(DATE.format(text, ":") for text in ("", r"18000000\n", r"180000000x\n", r"1800000000\n1\n", r"1800000000000000\n")),
    DATE.format(r"1800000000\n", "return 1"),
    *(SHA.format(text, ":") for text in ("", rf"{HASH}\n1\n", rf"{HASH[1:]}  -\n", rf"{HASH.upper()}  -\n", rf"{HASH}  x\n")),
    SHA.format(rf"{HASH}  -\n", "return 1"),
    E2FSCK.format(r"Pass 1: x\n", ":"),
    E2FSCK.format(r"Pass 5: x\n", "return 4"),
    *(VERSION.format(name, text, ":") for name in ("debugfs", "e2fsck") for text in ("", "x 1.47")),
    *(VERSION.format(name, f"{name} 1.47", "return 1") for name in ("debugfs", "e2fsck")),
    read(dump="return 1"),
    read(end="return 1"),
    read(stat=STATED.replace("regular", "symlink")),
    read(stat=STATED.replace("0600", "600")),
    read(stat=STATED.replace("User:     0", "User:     7")),
    read(stat=STATED.replace("Group:     0", "Group:     7")),
    read(stat=""),
    keygen(private="-----BEGIN RSA PRIVATE KEY-----"),
    keygen(public=f"{PUBLIC} other"),
    keygen(public=f"{PUBLIC.replace('x', 'y')} node"),
    keygen(public=f"{PUBLIC} node\n{PUBLIC} node"),
    keygen(public=f"{PUBLIC}x node", shown=f"{PUBLIC}x node"),
    keygen(public=f"{PUBLIC[:-1]}; node", shown=f"{PUBLIC[:-1]}; node"),
    keygen(public=f"ssh-rsa{PUBLIC[11:]}aaaa node", shown=f"ssh-rsa{PUBLIC[11:]}aaaa node"),
    keygen(shown=""),
    keygen(shown=f'{PUBLIC} node"; exit 1; echo "'),
    keygen(end="exit 1"),
    keygen(end="rm key"),
    keygen(end="rm key.pub"),
    table(row(1, 2048, 2048), label="dos"),
    table(row(1, 2048, 2048), size="4096"),
    table(),
    table(row("", 2048, 2048)),
    table(row(1, "x", 2048)),
    table(row(1, 2048, "")),
    table(row(1, 2048, "1" * 18)),
    table(row(1, 2048, 0)),
    table(row(1, 2048, 2048)).replace("; }; tool_last", "; return 1; }; tool_last"),
    *(f"is_number '{text}'; echo $?" for text in ("", "1x", "-1", "1" * 16)),
    *(f"is_hash '{text}'; echo $?" for text in ("", HASH[1:], HASH[1:] + "g", HASH + "0")),
    *(f"printf '{text}' >f; only_line f; echo $?" for text in ("", r"\n", r"a\nb", r"a\nb\n", r"a\n\n")),
    "only_line /no/such; echo $?",
    "mkdir() { :; }; tool_mkdir x; echo $?",
    "mkdir() { command mkdir x; return 1; }; tool_mkdir x; echo $?",
    "mkfifo() { :; }; tool_mkfifo x; echo $?",
    "mkfifo() { command mkfifo x; return 1; }; tool_mkfifo x; echo $?",
    "truncate() { return 1; }; tool_truncate x 5; echo $?",
]  # fmt: skip


@pytest.mark.parametrize(("code", "found"), GOOD)
def test_an_answer_that_is_believed(tmp_path: Path, code: str, found: str) -> None:
    assert shell(tmp_path, code) == (0, f"{found}\n")


@pytest.mark.parametrize("code", BAD)
def test_an_answer_that_is_not_believed(tmp_path: Path, code: str) -> None:
    status, text = shell(tmp_path, code)
    assert (status, text[:1].isdigit(), text.startswith("0")) == (0, True, False), text


ZEROS_READ = "set -- if=/dev/zero bs=1048576 count=1 status=none"
PROOFS = [
    (":", ""),
    ('PROGRAMS="$PROGRAMS nosuch"', "the program nosuch is missing in the installer"),
    ("tool_truncate() { return 1; }", "truncate does not work"),
    ("sha256sum() { echo $ZEROS; }", "sha256sum does not work"),
    ("tool_dd() { cat /proc/version; }", "dd does not read"),
    ("dd() { case $* in *sample*seek=*) command dd \"$@\"; return 1 ;; esac; command dd \"$@\"; }", "dd does not write"),
    ("dd() { case $* in *sample*seek=*) return 0 ;; esac; command dd \"$@\"; }", "dd does not write"),
    (
        f'dd() {{ case $* in *sample*bs=1048576*skip=2097152*) {ZEROS_READ} ;; esac; command dd "$@"; }}',
        "dd does not read what it wrote",
    ),
    ("wipefs() { echo 0x0 gpt; }", "it finds ' gpt' in zeros"),
    ("truncate() { case $* in *signed*) return 1 ;; esac; command truncate \"$@\"; }", "truncate does not work"),
    ("wipefs() { :; }", "it does not find a signature"),
    ("dd() { case $* in *signed*) return 1 ;; esac; command dd \"$@\"; }", "dd does not write"),
    ("mkfifo() { return 1; }", "mkfifo does not work"),
    ("zstd() { cat; return 0; }; tool_unpack() { echo x; }", "zstd or tee does not work"),
    ("tee() { command tee /dev/null; echo x >$1; }", "tee does not work"),
    ("tar() { case $1 in -cf) return 1 ;; esac; command tar \"$@\"; }", "tar does not work"),
    ("tar() { case $1 in -xf) echo x >$RUN/untarred/letters; return 0 ;; esac; command tar \"$@\"; }", "tar does not work"),
    ("tool_label() { return 1; }", "sfdisk does not work"),
    ("tool_last_partition() { PARTITION=1 START=4096 LENGTH=2048; }", "sfdisk does not work"),
    ("tool_last_partition() { PARTITION=1 START=2048 LENGTH=4096; }", "sfdisk does not work"),
    ("tool_last_partition() { PARTITION=1 START=2048 LENGTH=2048; return 1; }", "sfdisk does not work"),
    ("debugfs() { :; }", "debugfs does not work"),
    ("e2fsck() { :; }", "e2fsck does not work"),
    (in_path("ssh-keygen", "#!/bin/sh"), "ssh-keygen does not work"),
    ("date() { :; }", "date does not work"),
    ("sleep() { return 1; }", "sleep does not work"),
]  # fmt: skip


@pytest.mark.parametrize(("lie", "says"), PROOFS)
def test_a_proof(tmp_path: Path, lie: str, says: str) -> None:
    code, text = shell(tmp_path, f"poweroff() {{ :; }}; ip() {{ :; }}; {lie}; prove_tools")
    assert (code, text) == (1, f"REFUSED: {text[9:]}") if says else (0, ""), text
    assert says in text
