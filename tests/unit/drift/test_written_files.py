"""Files that bedplate wrote: content, owner, group, mode, type, targets and lines in files of others; each difference is named alone."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from ansible_collections.bedplate.cluster.plugins.module_utils.drift import written_files
from ansible_collections.bedplate.cluster.plugins.module_utils.primitives.files.manifest import ManagedPath

from .machine import STATE, Machine, summary

CONF = "/etc/demo/demo.conf"
KEY = "/etc/demo/key"
LIST = "/etc/other.list"


@pytest.fixture
def machine(tmp_path: Path) -> Machine:
    return Machine(tmp_path)


@pytest.fixture
def rows(machine: Machine) -> list[dict[str, Any]]:
    """Return what a role expects of a machine that has it."""
    found = [machine.write(CONF, "a = 1\n"), machine.write(KEY, "secret", mode="0400", sha256=None)]
    machine.put(LIST, "theirs\n# bedplate demo: begin\nours\n# bedplate demo: end\n")
    machine.record(LIST, ManagedPath("block", ["demo"], made=False))
    (machine.top / "etc/demo").chmod(0o755)
    machine.record("/etc/demo", ManagedPath("directory", ["demo"], made=True, mode="0755"))
    (machine.top / "etc/demo/link").symlink_to("demo.conf")
    machine.record("/etc/demo/link", ManagedPath("link", ["demo"], made=True, target="demo.conf"))
    return found


def swap(path: Path) -> None:
    path.rename(path.with_suffix(".real"))
    path.symlink_to(f"/{path.with_suffix('.real').name}")


def away(path: Path) -> None:
    path.unlink()


CHANGES: dict[str, tuple[str, Callable[[Path], object], tuple[str, str, str]]] = {
    "content": (CONF, lambda path: path.write_text("a = 2\n"), ("file", f"file {CONF}", "")),
    "content that is known on the machine alone": (
        KEY, lambda path: (path.chmod(0o600), path.write_text("other"), path.chmod(0o400)), ("file", f"file {KEY}", ""),
    ),
    "away": (CONF, away, ("file", f"file {CONF}", "")),
    "mode": (KEY, lambda path: path.chmod(0o440), ("file-mode", f"mode of {KEY}", "")),
    "a link in its place": (CONF, swap, ("file-type", f"file {CONF}", "/demo.real")),
    "a directory in its place": (CONF, lambda path: (path.unlink(), path.mkdir()), ("file-type", f"file {CONF}", "")),
    "mode of the directory": ("/etc/demo", lambda path: path.chmod(0o777), ("file-mode", "mode of /etc/demo", "")),
    "the lines": (LIST, lambda path: path.write_text("theirs\n"), ("block", f"lines of demo in {LIST}", "")),
    "the file of the lines": (LIST, away, ("file", f"file {LIST}", "")),
    "a link to nothing in the place of the lines": (
        LIST, lambda path: (path.unlink(), path.symlink_to("nowhere")), ("file-type", f"file {LIST}", "nowhere"),
    ),
    "target": (
        "/etc/demo/link", lambda path: (path.unlink(), path.symlink_to("key")), ("file", "file /etc/demo/link", ""),
    ),
}  # fmt: skip


def read(machine: Machine, rows: list[dict[str, Any]]) -> list[tuple[str, str, str]]:
    return summary(written_files.findings(machine.root, {"files": rows}, machine.run))


def test_a_machine_as_it_was_left_is_silent(machine: Machine, rows: list[dict[str, Any]]) -> None:
    assert read(machine, rows) == []


@pytest.mark.parametrize("name", CHANGES)
def test_what_changed_is_named_alone(name: str, machine: Machine, rows: list[dict[str, Any]]) -> None:
    path, change, finding = CHANGES[name]
    change(machine.top / path.lstrip("/"))
    assert read(machine, rows) == [finding]


@pytest.mark.parametrize(("field", "kind"), [("owner", "file-owner"), ("group", "file-group")])
def test_owner_and_group_are_compared(machine: Machine, rows: list[dict[str, Any]], field: str, kind: str) -> None:
    """The tree cannot be given to others, so others are expected."""
    rows[0][field] = "munge"
    assert read(machine, rows) == [(kind, f"{field} of {CONF}", "")]


def test_a_record_of_an_older_bedplate_has_no_owner(machine: Machine, rows: list[dict[str, Any]]) -> None:
    path = machine.top / STATE / "files.json"
    document = json.loads(path.read_text())
    for entry in document["files"].values():
        del entry["owner"], entry["group"]
    path.write_text(json.dumps(document))
    assert read(machine, rows) == []
    assert read(machine, [{**rows[0], "path": "/x", "state": "unknown"}]) == []


def test_files_of_other_manifests_are_left_to_them(machine: Machine, rows: list[dict[str, Any]]) -> None:
    other = machine.write("/etc/other.conf", "x\n", manifest="other")
    machine.put("/etc/other.conf", "y\n")
    assert read(machine, rows) == []
    assert read(machine, [*rows, other]) == [("file", "file /etc/other.conf", "")]


def test_a_record_that_cannot_be_read_is_a_finding(machine: Machine, rows: list[dict[str, Any]]) -> None:
    machine.put(f"{STATE}/files.json", "{")
    assert read(machine, rows)[0][0] == "records"


def test_lines_of_every_manifest_in_a_file_are_read(machine: Machine, rows: list[dict[str, Any]]) -> None:
    row = {"path": LIST, "state": "block", "manifest": "demo", "role": "demo"}
    machine.record(LIST, ManagedPath("block", ["demo", "more"], made=False))
    ((kind, where, by),) = read(machine, [*rows, row])
    assert (kind, {"more", LIST} <= set(where.split()), by) == ("block", True, "")


def test_content_that_cannot_be_read_is_a_finding(
    machine: Machine, rows: list[dict[str, Any]], monkeypatch: pytest.MonkeyPatch
) -> None:
    def refuses(_path: Path) -> bytes:
        raise OSError(5, "Input/output error")

    recorded = json.dumps(rows)
    monkeypatch.setattr(Path, "read_bytes", refuses)
    assert ("file", f"file {CONF}", "") in read(machine, json.loads(recorded))


def test_lines_in_a_file_that_its_package_made_a_link_are_read_there(
    machine: Machine, rows: list[dict[str, Any]]
) -> None:
    path = machine.top / LIST.lstrip("/")
    path.rename(f"{path}.real")
    path.symlink_to("other.list.real")
    assert read(machine, rows) == []


def test_a_directory_behind_a_link_is_compared_there(machine: Machine, rows: list[dict[str, Any]]) -> None:
    directory = machine.top / "etc/demo"
    directory.rename(machine.top / "etc/real")
    directory.symlink_to("real")
    assert read(machine, rows) == []
    (machine.top / "etc/real").chmod(0o700)
    assert read(machine, rows) == [("file-mode", "mode of /etc/demo", "")]


@pytest.mark.parametrize("manifest", ["drop_ins:demo", "drop_ins:whoever", "demo.sources", "demo.follow"])
def test_what_came_beside_the_files_of_a_task_is_compared_with_them(
    machine: Machine, rows: list[dict[str, Any]], manifest: str
) -> None:
    machine.write("/etc/systemd/system/x.service.d/x.conf", "x\n", manifest=manifest)
    machine.put("/etc/systemd/system/x.service.d/x.conf", "y\n")
    assert read(machine, rows) == [("file", "file /etc/systemd/system/x.service.d/x.conf", "")]


def test_names_of_a_directory_service_are_known_and_those_that_nobody_knows_are_not_compared(
    machine: Machine, rows: list[dict[str, Any]]
) -> None:
    rows[0]["owner"] = "ldapuser"
    assert read(machine, rows) == []
    machine.answers["getent"] = lambda words: f"ldapuser:x:{machine.top.stat().st_uid + 3}:0::/:/bin/sh\n"
    assert read(machine, rows) == [("file-owner", f"owner of {CONF}", "")]
