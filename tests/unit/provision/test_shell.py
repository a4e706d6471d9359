"""The installer's shell: no finding of shellcheck, and no program outside of tools.sh."""

from __future__ import annotations

import re
import subprocess
from dataclasses import asdict
from pathlib import Path

import pytest

from ansible_collections.bedplate.cluster.plugins.module_utils.provision.order_text import Order
from tests.kit.provision.machine import LIB, programs

INSTALLER = LIB.parent
SCRIPTS = [
    *sorted(LIB.glob("*.sh")),
    INSTALLER / "finish.sh",
    INSTALLER / "hooks/bedplate",
    INSTALLER / "scripts/bedplate",
]


@pytest.mark.tools("shellcheck")
@pytest.mark.parametrize("script", SCRIPTS, ids=lambda path: path.name)
def test_shellcheck(script: Path) -> None:
    done = subprocess.run(["shellcheck", "--shell=dash", str(script)], capture_output=True, text=True)
    assert done.stdout == ""


@pytest.mark.parametrize(
    "script", [path for path in SCRIPTS[:-3] if path.name != "tools.sh"], ids=lambda path: path.name
)
def test_programs_are_called_in_tools_alone(script: Path) -> None:
    names = "|".join(programs())
    for number, line in enumerate(script.read_text().splitlines(), 1):
        code = re.sub(r'"[^"]*"', '""', line.partition("#")[0] if line.lstrip().startswith("#") else line)
        assert not re.search(rf"(?:^|[;&|(]|\bthen|\bdo|\bif|!)\s*(?:{names})\b(?!_)", code), (
            f"{script.name}:{number}: {line}"
        )


ORDER = Order(
    "a" * 32, "gpu001", "SN1", "52:54:00:be:d9:01", "D1", "no", "https://10.0.0.1:8443", "0" * 64, "1800000000",
    "https://10.0.0.1:8443/images/x.img.zst", "1" * 64, "2" * 64, str(24 << 20), str(2 << 20), "3" * 64, "10.20.9.1/22", "none", "seed",
)  # fmt: skip


def shell(folder: Path, code: str) -> tuple[int, str]:
    """Run code after the functions of the installer. A refusal ends it."""
    parts = " ".join(f'. "{LIB}/{name}.sh";' for name in ("tools", "proofs", "order", "machine", "seed"))
    begin = f'set -u; SECONDS_TO_APPEAR=0 CONF="{folder}" RUN="{folder}"; refuse() {{ echo "REFUSED: $*"; exit 1; }}; {parts} '
    done = subprocess.run(["/bin/dash", "-c", begin + code], capture_output=True, text=True)
    return done.returncode, done.stdout + done.stderr


def give(folder: Path, **other: str) -> None:
    """Write an order whose values may be such as the provision host never writes."""
    lines = ["bedplate_order=1", *(f"{key}={value}" for key, value in {**asdict(ORDER), **other}.items())]
    (folder / "order").write_text("\n".join([*lines, f"end={len(lines)}", ""]))
    (folder / "ca.pem").write_text("CA\n")


def test_an_order_sets_its_values(tmp_path: Path) -> None:
    give(tmp_path)
    assert shell(tmp_path, 'read_order; echo "$order_serial $order_wipe $order_token"') == (0, f"SN1 no {'0' * 64}\n")
    assert shell(tmp_path, "umask 077; read_order")[0] == 0
    (tmp_path / "ca.pem").write_text("")
    assert shell(tmp_path, "read_order") == (1, "REFUSED: no ca.pem beside the order\n")


@pytest.mark.parametrize(
    ("key", "value"),
    [
        ("raw_bytes", "24M"), ("raw_bytes", str((24 << 20) + 512)), ("raw_bytes", str(2 << 20)), ("raw_bytes", "1" * 16),
        ("root_start", str(1 << 20)), ("root_start", str((2 << 20) + 512)), ("issued", "now"), ("image_sha256", "1" * 63),
        ("raw_sha256", "g" * 64), ("seed_sha256", "A" * 64), ("token", "0" * 65), ("id", "../x"), ("wipe", "YES"), ("host_key", "none"),
        ("server", "http://10.0.0.1:8443"), ("image", "http://10.0.0.1:8443/x"), ("mac", "x"), ("serial", "Not Specified"), ("serial", "0"),
        ("serial", "None"), ("serial", "none"), ("serial", "Default string"), ("serial", "To be filled by O.E.M."),
        ("node", "a$(reboot)"), ("node", "a;b"), ("gateway", ""),
    ],
)  # fmt: skip
def test_the_installer_refuses_a_value(tmp_path: Path, key: str, value: str) -> None:
    give(tmp_path, **{key: value})
    code, text = shell(tmp_path, "read_order; echo PASSED")
    assert (code, text.startswith("REFUSED: the order's "), "PASSED" in text) == (1, True, False), text
    assert not (tmp_path / "authorization").exists()


@pytest.mark.parametrize(
    ("text", "says"),
    [
        ("", "no order"),
        ("bedplate_order=2\n", "does not begin with bedplate_order=1"),
        ("id=1\n", "does not begin with bedplate_order=1"),
        ("bedplate_order=1\nx=1\n", "has the unknown key x"),
        ("bedplate_order=1\nwipe=no\nwipe=yes\n", "has the key wipe twice"),
        ("bedplate_order=1\nwipe\n", "wipe has no value"),
        ("bedplate_order=1\nwipe=yes\n", "is cut"),
        ("bedplate_order=1\nwipe=yes\nend=1\n", "unknown key end"),
        ("bedplate_order=1\nwipe=yes\nend=2\n", "has no id"),
        ("bedplate_order=1\nwipe=yes\nend=2\nwipe=no\n", "has lines behind its end"),
    ],
)
def test_a_text_that_is_not_an_order(tmp_path: Path, text: str, says: str) -> None:
    (tmp_path / "order").write_text(text)
    (tmp_path / "ca.pem").write_text("CA\n")
    code, found = shell(tmp_path, "read_order; echo PASSED")
    assert (code, says in found, "PASSED" in found) == (1, True, False), found


@pytest.mark.parametrize(
    ("date", "says"),
    [
        ("echo 1800000001", ""),
        ("exit 1", "date does not work"),
        ("[ $1 = +%s ] && echo 315532800", "the clock is older than the order and cannot be set"),
        ("[ $1 = +%s ] && echo 315532800 || exit 0", "the clock is older than the order and cannot be set"),
    ],
)
def test_a_clock(tmp_path: Path, date: str, says: str) -> None:
    code, text = shell(tmp_path, f"date() {{ ( {date} ); }}; order_issued=1800000000; check_clock")
    assert (code, says in text) == (1 if says else 0, True), text


HELLO = "2cf24dba5fb0a30e26e83b2ac5b9e29e1b161e5c1fa7425e73043362938b9824"
PLAIN = f"0644 {HELLO} /etc/x\n"


@pytest.mark.parametrize(
    ("manifest", "says"),
    [
        (f"{PLAIN}end 1\n", ""),
        (PLAIN, "cut"),
        (f"{PLAIN}end 2\n", "cut"),
        ("end 0\n", "cut"),
        (f"{PLAIN}end 1\n{PLAIN}", "more than its lines"),
        (f"{PLAIN[:-1]} y\nend 1\n", "more than its lines"),
        (f"{PLAIN}end 1 /etc/y\n", "cut"),
        (PLAIN.replace("0644", "4755") + "end 1\n", "mode 4755"),
        (PLAIN.replace(HELLO, "x") + "end 1\n", "without a hash"),
        (PLAIN.replace(HELLO, "0" * 64) + "end 1\n", "not what its manifest says"),
        (PLAIN.replace("/etc/x", "etc/x") + "end 1\n", "not absolute"),
        *(
            (PLAIN.replace("/etc/x", path) + "end 1\n", "path that is not allowed")
            for path in ("/a/../b", "/a/..", "/a/.", "/a//b", "/a/./b", "/a/", "/a'b")
        ),
    ],
)
def test_a_manifest(tmp_path: Path, manifest: str, says: str) -> None:
    (tmp_path / "seed").mkdir()
    (tmp_path / "seed/0").write_text("hello")
    (tmp_path / "seed/1").write_text("hello")
    (tmp_path / "seed/manifest").write_text(manifest)
    code, text = shell(tmp_path, "read_manifest")
    assert (code, says in text) == (1 if says else 0, True), text
