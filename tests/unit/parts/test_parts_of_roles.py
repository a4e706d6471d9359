"""Every part of every role: what it may say, and that each file which bedplate puts on a node is found in roles/ by its name."""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import replace
from functools import cache
from typing import Any

import pytest

from ansible_collections.bedplate.cluster.plugins.module_utils.tuning.boot import bootloader
from ansible_collections.bedplate.cluster.plugins.plugin_utils.cluster import load
from ansible_collections.bedplate.cluster.plugins.plugin_utils.common import shipped
from ansible_collections.bedplate.cluster.plugins.plugin_utils.common.role_choices import role_choices
from ansible_collections.bedplate.cluster.plugins.plugin_utils.gpu_lock.lock_document import lock_of
from ansible_collections.bedplate.cluster.plugins.plugin_utils.gpu_stack.parts import driver_part
from ansible_collections.bedplate.cluster.plugins.plugin_utils.gpu_stack.parts.part_plan import software_of
from ansible_collections.bedplate.cluster.plugins.plugin_utils.parts.part_files import ROLES, part_file, parts_of
from ansible_collections.bedplate.cluster.plugins.plugin_utils.parts.placeholders import PLACEHOLDER
from ansible_collections.bedplate.cluster.plugins.plugin_utils.parts.render import render_part
from ansible_collections.bedplate.cluster.plugins.plugin_utils.roles.role_mistakes import ROLES as NAMES
from tests.kit import ROOT
from tests.kit.rendered_parts import rendered

GPU = ROOT / "tests/roles/clusters/gpu/gpu.bedplate.yml"
PARTS = [(role, part) for role in NAMES for part in parts_of(role)]
# What modules write that take no entries of files.
BY_MODULES = (
    f"/{bootloader.DROP_IN}",
    "/etc/docker/daemon.json",
    "/etc/containerd/config.toml",
    "/etc/crio/crio.conf.d/60-bedplate-cdi.conf",
    "/etc/nvidia-container-runtime/config.toml",
    "/var/lib/bedplate/archives",
)
_STATEMENT = re.compile(r"\{%|\{#|\{\{")


def texts(value: Any) -> Iterator[str]:
    """Yield every text of a document."""
    if isinstance(value, str):
        yield value
    elif isinstance(value, dict):
        for each in value.values():
            yield from texts(each)
    elif isinstance(value, list):
        for each in value:
            yield from texts(each)


@pytest.mark.parametrize(("role", "part"), PARTS)
def test_a_part_is_plain_data(role: str, part: str) -> None:
    document = part_file(role, part)
    odd = [text for text in texts(dict(document)) if _STATEMENT.search(PLACEHOLDER.sub("", text))]
    assert odd == []
    named = [text for text in texts(dict(document)) for _whole in [PLACEHOLDER.search(text)] if _whole]
    assert all("values." in text or "item" in text for text in named)


def test_every_role_has_parts_and_a_main_one() -> None:
    assert [role for role in NAMES if not parts_of(role)] == []
    assert {role for role, part in PARTS if part_file(role, part).get("site_files")} == set(NAMES)


@cache
def rows() -> list[tuple[str, re.Pattern[str]]]:
    """Return (literal part before the first placeholder, pattern of the path) of every file of every part."""
    found = []
    for role, part in PARTS:
        document = part_file(role, part)
        for entry in [*document.get("sources", []), *document.get("files", [])]:
            path = entry["path"]
            pattern = re.escape(PLACEHOLDER.sub("\0", path)).replace("\0", ".+")
            found.append((PLACEHOLDER.split(path)[0], re.compile(pattern)))
    return found


def programs() -> set[str]:
    """Return the files of programs that units name."""
    named = {
        unit["program"] for role, part in PARTS for unit in part_file(role, part).get("units", ()) if "program" in unit
    }
    return {entry["path"] for name in named for entry in shipped.entries(name)}


def driver_of_a_lock() -> dict[str, Any]:
    """Return the driver's part of a node whose versions a lock states; no cluster file of the tree has a lock beside it."""
    cluster = load(GPU)
    wanted = software_of(cluster, "gpu1")
    assert wanted is not None
    locked = replace(wanted, file=replace(wanted.file, lock=lock_of({})))
    values = driver_part.decide(locked, cluster, "gpu1", role_choices("gpu_driver", {}, lambda value: value)).parts
    return render_part("gpu_driver", "driver", values["driver"])


@pytest.fixture(scope="module")
def paths(tmp_path_factory: pytest.TempPathFactory) -> set[str]:
    """Return every path of every part on every kind of host."""
    every = (part for _role, _part, _host, part in rendered(tmp_path_factory.mktemp("rare")))
    return {
        entry["path"]
        for part in (*every, driver_of_a_lock())
        for entry in [*part.get("sources", []), *part.get("files", [])]
    }


def test_each_file_on_a_node_is_found_in_roles(paths: set[str]) -> None:
    assert len(paths) > 100
    unfound = [path for path in paths - programs() if not any(pattern.fullmatch(path) for _literal, pattern in rows())]
    assert unfound == []
    assert [literal for literal, _pattern in rows() if len(literal) < len("/etc/x")] == []


def test_each_file_that_a_module_writes_is_named_in_a_part() -> None:
    text = "".join(path.read_text() for path in sorted(ROLES.glob("*/parts/*.yml")))
    assert [path for path in BY_MODULES if path not in text] == []


def test_each_row_of_a_part_is_on_some_node(paths: set[str]) -> None:
    unused = [pattern.pattern for _literal, pattern in rows() if not any(pattern.fullmatch(path) for path in paths)]
    assert unused == []
