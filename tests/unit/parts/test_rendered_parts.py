"""What each row of each part becomes on a node, in rendered/<role>.txt: a row, a key or a line that is lost or changed is one line of diff.

`BEDPLATE_RENEW_SENTENCES=1 pytest tests/unit/parts` writes the files again. The fewest hosts are chosen that have each row of a part.
"""

from __future__ import annotations

import os
import re
from collections.abc import Iterator, Mapping
from hashlib import sha256
from pathlib import Path
from typing import Any

import pytest
import yaml

from ansible_collections.bedplate.cluster.plugins.plugin_utils.common import shipped
from ansible_collections.bedplate.cluster.plugins.plugin_utils.roles.role_mistakes import ROLES as NAMES
from tests.kit import rendered_parts
from tests.kit.rendered_parts import rendered
from tests.kit.sentences import RENEW

ROOT = Path(__file__).parents[3]
FOLDER = Path(__file__).parent / "rendered"
# Those of molecule/ name keys that only a run of their scenario makes.
CLUSTERS = [path for path in rendered_parts.CLUSTERS if "molecule" not in path.parts]
LONG = 400
"""Characters of a content that is shown whole."""


def features(arguments: Mapping[str, Any]) -> Iterator[tuple[object, ...]]:
    """Yield the features of a rendering that are shown once: its keys, its files and its units with their keys."""
    for key, value in arguments.items():
        yield (key, bool(value))
        for one in value if key in ("files", "sources", "units") else ():
            yield (key, re.sub(r"\d+", "#", one.get("path") or one["name"]), tuple(sorted(one)))


def shown(arguments: Mapping[str, Any], folder: str) -> dict[str, Any]:
    """Return arguments without programs that units run, which have tests, and without temporary paths; long contents as digests."""
    programs = {
        entry["path"]
        for unit in arguments.get("units", ())
        if "program" in unit
        for entry in shipped.entries(unit["program"])
    }
    # Wide, so that no path is broken between two lines.
    text = yaml.safe_dump(dict(arguments), width=100000).replace(folder, "/site").replace(str(ROOT), "/bedplate")
    found: dict[str, Any] = yaml.safe_load(text)
    if "files" in found:
        found["files"] = [one for one in found["files"] if one["path"] not in programs]
    for one in [*found.get("files", []), *found.get("sources", [])]:
        text = str(one.get("content", ""))
        if len(text) > LONG:
            one["content"] = f"{len(text.splitlines())} lines, sha256 {sha256(text.encode()).hexdigest()}"
    return found


@pytest.fixture(scope="module")
def chosen(tmp_path_factory: pytest.TempPathFactory) -> dict[str, dict[str, Any]]:
    """Return role -> part -> host -> arguments, of the hosts that show a feature first."""
    folder = tmp_path_factory.mktemp("rare")
    seen: dict[tuple[str, str], set[tuple[object, ...]]] = {}
    found: dict[str, dict[str, Any]] = {role: {} for role in NAMES}
    for role, part, host, arguments in rendered(folder, CLUSTERS, packagings=False):
        new = set(features(arguments)) - seen.setdefault((role, part), set())
        if new:
            seen[role, part] |= new
            of_part = found[role].setdefault(part, {})
            of_part[host if host not in of_part else f"{host} ({len(of_part)})"] = shown(arguments, str(folder))
    return found


@pytest.mark.parametrize("role", NAMES)
def test_what_a_role_puts_on_a_node(chosen: dict[str, dict[str, Any]], role: str) -> None:
    path = FOLDER / f"{role}.txt"
    if os.environ.get(RENEW):
        FOLDER.mkdir(exist_ok=True)
        path.write_text(yaml.safe_dump(chosen[role], sort_keys=True, width=100))
    assert yaml.safe_load(path.read_text()) == chosen[role], (
        f"{RENEW}=1 pytest {Path(__file__).parent} writes the change"
    )
