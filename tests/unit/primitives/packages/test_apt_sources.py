"""The reader of apt's sources against apt itself, and which of them apt refuses beside ours."""

from __future__ import annotations

import subprocess
from pathlib import Path

import pytest

from ansible_collections.bedplate.cluster.plugins.module_utils.primitives.files.file_plan import DesiredFile
from ansible_collections.bedplate.cluster.plugins.module_utils.primitives.packages.apt_sources import (
    parse,
    source_files,
    switched_off,
)
from ansible_collections.bedplate.cluster.plugins.module_utils.primitives.packages.foreign_sources import ForeignSources
from tests.kit.apt_root import AptRoot

URL = "http://m.example.org/cuda"
KEY = "/usr/share/keyrings/cuda-archive-keyring.gpg"
ARMOR = """\
 -----BEGIN PGP PUBLIC KEY BLOCK-----
 .
 mDMEZ0000000000000000000000000000000000000000000000000000000000000000
 -----END PGP PUBLIC KEY BLOCK-----
"""
OURS = f"# Written by bedplate.\nTypes: deb\nURIs: {URL}\nSuites: /\nSigned-By:\n{ARMOR}"
ARCHITECTURE = subprocess.run(
    ["dpkg", "--print-architecture"], capture_output=True, text=True, check=True
).stdout.strip()

# Text of a file, and what apt makes of it.
LIST = f"""\
# deb {URL} trixie main
deb {URL} trixie main  # our copy
deb [arch=amd64,arm64 signed-by={KEY}] {URL}/ bookworm main contrib
  deb-src [ signed-by={KEY} lang=none ] {URL} sid main
deb [signed-by={KEY}#x] {URL} forky main
deb "{URL}/a%20b" / # a flat one
deb {URL}/$(ARCH) ./
rpm {URL} trixie main
deb {URL}
"""
SOURCES = f"""\
# A comment.
Types: deb deb-src
URIs: {URL} {URL}/second/
Suites: trixie trixie-updates
# Components: contrib
Components: main
Signed-By: {KEY}

Types: deb
URIs: {URL}
Suites: sid
Components: main
Enabled: no

enabled: yes
types: deb
uris:
 {URL}/folded
suites: /
Signed-By:
{ARMOR}
"""


@pytest.fixture
def root(tmp_path: Path) -> AptRoot:
    return AptRoot(tmp_path)


def releases(root: AptRoot) -> set[str]:
    """Return the directories of the Release files that apt would fetch."""
    done = root.run(["apt-get", "update", "--print-uris"])
    assert done.code == 0, done.stderr
    return {line.split("'")[1].removesuffix("InRelease") for line in done.stdout.splitlines() if "InRelease" in line}


def found(root: AptRoot) -> list[str]:
    wanted = [DesiredFile(str(root.etc / "sources.list.d/bedplate-nvidia.sources"), content=OURS.encode())]
    foreign = ForeignSources(root.base / "state", check=False, apt=root.etc, yum=root.etc / "yum.repos.d")
    return [one.place for one in foreign.found(wanted, ())]


@pytest.mark.parametrize(
    ("name", "text"), [("x.list", LIST.replace("rpm", "#rpm").replace(f"deb {URL}\n", "")), ("x.sources", SOURCES)]
)
def test_the_reader_agrees_with_apt(root: AptRoot, name: str, text: str) -> None:
    path = root.etc / "sources.list.d" / name
    path.write_text(text)
    read = {one.release for one in parse(str(path), text, ARCHITECTURE)}
    assert read
    assert read == releases(root)


def test_lines_and_keys() -> None:
    entries = parse("x.list", LIST, "amd64")
    assert [(one.lines[0], one.suite, one.signed_by) for one in entries] == [
        (2, "trixie", ""), (3, "bookworm", KEY), (4, "sid", KEY), (5, "forky", f"{KEY}#X".replace("#X", "#x")), (6, "/", ""), (7, "./", ""),
    ]  # fmt: skip
    assert entries[4].uri == f"{URL}/a b/"
    assert entries[5].uri == f"{URL}/amd64/"
    assert [(one.lines, one.uri, one.suite) for one in parse("x.sources", SOURCES)] == [
        ((2, 7), f"{URL}/", "trixie"), ((2, 7), f"{URL}/", "trixie-updates"),
        ((2, 7), f"{URL}/second/", "trixie"), ((2, 7), f"{URL}/second/", "trixie-updates"),
        ((15, 24), f"{URL}/folded/", "/"),
    ]  # fmt: skip


def test_apt_reads_only_some_names(root: AptRoot) -> None:
    for name in ("a.list", "b.list.disabled", "c.save", "d.sources", "e~.list", ".f.list", "g h.list"):
        (root.etc / "sources.list.d" / name).write_text(f"deb {URL}/{name[0]} / \n" if name != "d.sources" else OURS)
    assert [one.name for one in source_files(root.etc)] == ["a.list", "d.sources"]
    assert releases(root) == {f"{URL}/a/", f"{URL}/"}


@pytest.mark.parametrize(("name", "text"), [("x.list", LIST), ("x.sources", SOURCES)])
def test_switching_entries_off_leaves_the_others(name: str, text: str) -> None:
    entries = parse(name, text, "amd64")
    for one in entries:
        rest = switched_off(name, text, [one])
        assert [each.repository for each in parse(name, rest, "amd64")] == [
            each.repository for each in entries if each.lines != one.lines
        ]
        kept = {line for line in text.splitlines() if not line.lower().startswith("enabled")}
        assert {line.removeprefix("# ") for line in rest.splitlines()} >= {line.removeprefix("# ") for line in kept}
    assert parse(name, switched_off(name, text, entries), "amd64") == []


# name of the file, its text; each alone beside ours, and the real apt is the judge.
BESIDE = [
    ("sources.list", f"deb {URL} /"),
    ("sources.list", f"deb {URL}/ /"),
    ("sources.list", f"deb [signed-by={KEY}] {URL} /"),
    ("sources.list.d/aa.list", f"deb {URL} /"),
    ("sources.list.d/zz.list", f"deb {URL} /"),
    ("sources.list.d/cuda-debian12-x86_64.list", f"deb [signed-by={KEY}] {URL}/ /"),
    ("sources.list.d/cuda-debian12-x86_64.list", f"deb [arch=amd64 signed-by={KEY}] {URL}/ ./"),
    ("sources.list.d/cuda-debian12-x86_64.list", f"#deb [signed-by={KEY}] {URL}/ /"),
    ("sources.list.d/src.list", f"deb-src [signed-by={KEY}] {URL}/ /"),
    ("sources.list.d/https.list", f"deb [signed-by={KEY}] https://m.example.org/cuda /"),
    ("sources.list.d/other.list", f"deb [signed-by={KEY}] {URL}/other /"),
    ("sources.list.d/many.sources", f"Types: deb\nURIs: http://x.example.org/ {URL}\nSuites: sid/ /\nSigned-By: {KEY}\n"),
    ("sources.list.d/off.sources", f"Types: deb\nURIs: {URL}\nSuites: /\nEnabled: false\nSigned-By: {KEY}\n"),
    ("sources.list.d/same.sources", OURS),
    ("sources.list.d/zsame.sources", OURS.replace(" .\n", " \n .\n").replace(" \n", "")),
    ("sources.list", f"deb [signed-by={KEY}] {URL.replace('http', 'https')} /"),
    ("sources.list", f"deb [signed-by={KEY}] {URL.replace('//', '//me:secret@')} /"),
    ("sources.list.d/zz.list", f"deb [signed-by={KEY}] {URL.removesuffix('/cuda')} cuda/"),
    ("sources.list.d/trusted.list", f"deb [trusted=yes] {URL} /"),
    ("sources.list", f"deb [trusted=yes] {URL} /"),
    ("sources.list", f"deb [check-valid-until=no] {URL} /"),
    ("sources.list", f"deb [arch=arm64 lang=none] {URL} /"),
]  # fmt: skip


@pytest.mark.parametrize(("name", "text"), BESIDE)
def test_what_apt_refuses_beside_ours_is_found(root: AptRoot, name: str, text: str) -> None:
    (root.etc / name).write_text(text + "\n")
    (root.etc / "sources.list.d/bedplate-nvidia.sources").write_text(OURS)
    done = root.run(["apt-get", "indextargets"])
    assert done.code in (0, 100)
    refused = done.code == 100
    if refused:
        assert "Conflicting values set for option" in done.stderr
    assert found(root) == ([f"{root.etc / name}:1"] if refused else [])
