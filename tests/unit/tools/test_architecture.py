"""The rooms of a small tree, and each way in which one can be wrong."""

from __future__ import annotations

import re
from collections.abc import Mapping
from pathlib import Path

import pytest
import yaml

from tools import architecture

PACKAGE = architecture.PACKAGE
TREE = {
    "modules/load.py": f"from {PACKAGE}.module_utils.parts.reader import read\n",
    "module_utils/common/text.py": "",
    **{
        f"{room}/__init__.py": f'"""Hold {room}."""\n'
        for room in ("module_utils/common", "module_utils/parts", "plugin_utils/common", "plugin_utils/plan")
    },
    "module_utils/parts/writer.py": "from ..common import text\nfrom ..common.text import few\n",
    "module_utils/parts/boot.py": "from .writer import write\n",
    "module_utils/parts/lights.py": "",
    "module_utils/parts/reader.py": "",
    "plugin_utils/plan/part.py": f"""
from {PACKAGE}.module_utils.common import text
from ..common import shipped
""",
    "../roles/lamp/parts/lamp.yml": "units: [{name: boot.service, program: parts.boot}, {name: l.service, program: parts.lights}]",
    "plugin_utils/common/shipped.py": "",
}
ROOMS = {
    "module_utils/common": [],
    "module_utils/parts": ["module_utils/common"],
    "plugin_utils/common": [],
    "plugin_utils/plan": ["module_utils/common", "plugin_utils/common"],
}


@pytest.fixture(scope="module")
def code() -> architecture.Code:
    """Return the code of this tree, which takes seconds to read."""
    return architecture.read(architecture.ROOT / "plugins")


@pytest.fixture
def read_once(code: architecture.Code, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(architecture, "read", lambda _plugins: code)


def found(
    top: Path, changes: Mapping[str, str] | None = None, rooms: Mapping[str, list[str]] | None = None
) -> list[str]:
    """Return the mistakes of the tree with other files."""
    for name, text in {**TREE, **(changes or {})}.items():
        path = top / "plugins" / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text)
    (top / "tests/unit").mkdir(parents=True)
    return architecture.mistakes(architecture.read(top / "plugins"), rooms or ROOMS, top)


def test_a_tree_as_its_rooms_say(tmp_path: Path) -> None:
    assert found(tmp_path) == []


def test_the_rooms_of_this_tree_are_read_from_imports_of_every_form(code: architecture.Code) -> None:
    seen = architecture.arrows(code)
    assert "module_utils/common" in seen["module_utils/primitives/files"]  # from ...common import x
    assert "module_utils/primitives/files" in seen["plugin_utils/common"]  # from ansible_collections... import (x)


@pytest.mark.parametrize(
    ("changes", "rooms", "place"),
    [
        ({"module_utils/common/text.py": "from ..parts.boot import x\n"}, None, "plugins/module_utils/common/text.py"),
        ({"plugin_utils/plan/part.py": f"import {PACKAGE}.module_utils.common.text\nimport {PACKAGE}.module_utils.parts.boot\n"},
         {**ROOMS, "plugin_utils/plan": ["module_utils/common"]}, "plugins/plugin_utils/plan/part.py"),
        ({"module_utils/parts/boot.py": "import yaml\n"}, None, "plugins/module_utils/parts/boot.py"),
        ({"module_utils/parts/boot.py": "from ansible.module_utils.basic import AnsibleModule\n"}, None,
         "plugins/module_utils/parts/boot.py"),
        ({"module_utils/parts/boot.py": f"from {PACKAGE}.module_utils.parts.writer import write\n"}, None,
         "plugins/module_utils/parts/boot.py"),
        ({}, {**ROOMS, "plugin_utils/common": ["plugin_utils/plan"]}, "plugin_utils/common -> plugin_utils/plan"),
        ({"plugin_utils/other/x.py": ""}, None, "plugin_utils/other"),
        ({}, {**ROOMS, "plugin_utils/gone": []}, "plugin_utils/gone"),
        ({"module_utils/common/alone.py": ""}, None, "plugins/module_utils/common/alone.py"),
        ({"../roles/lamp/parts/lamp.yml": "units: [{name: l.service, program: parts.lights}]"}, None, "plugins/module_utils/parts/boot.py"),
        ({"module_utils/parts/boot.py": f"from {PACKAGE}.plugin_utils.plan.part import x\n"},
         {**ROOMS, "module_utils/parts": ["module_utils/common", "plugin_utils/plan"]}, "plugins/module_utils/parts/boot.py"),
        ({"plugin_utils/common/shipped.py": f"from {PACKAGE}.modules.load import x\n"},
         {**ROOMS, "plugin_utils/common": ["modules"]}, "plugins/plugin_utils/common/shipped.py"),
        ({"plugin_utils/common/shipped.py": "from ..plan import part\n"}, {**ROOMS, "plugin_utils/common": ["plugin_utils/plan"]},
         "plugin_utils/common -> plugin_utils/plan -> plugin_utils/common"),
        ({f"plugin_utils/plan/m{number}.py": "" for number in range(20)}, None, "plugins/plugin_utils/plan"),
        ({"plugin_utils/plan/__init__.py": ""}, None, "plugins/plugin_utils/plan/__init__.py"),
        ({"module_utils/parts/__init__.py": f'"""Hold{" parts" * 12}."""'}, None, "plugins/module_utils/parts/__init__.py"),
    ],
)  # fmt: skip
def test_each_mistake_has_a_line_with_its_place(
    changes: Mapping[str, str], rooms: Mapping[str, list[str]] | None, place: str, tmp_path: Path
) -> None:
    (line,) = [one for one in found(tmp_path, changes, rooms) if one.startswith(f"{place}:")]
    assert line


@pytest.mark.parametrize(
    ("name", "text", "folder"),
    [
        ("module_utils/parts/boot.py", f"from {PACKAGE} import plugin_utils\n", "plugin_utils"),
        ("module_utils/parts/boot.py", "from ... import plugin_utils\n", "plugin_utils"),
        ("module_utils/parts/boot.py", f"import {PACKAGE}.plugin_utils\n", "plugin_utils"),
        ("modules/load.py", f"from {PACKAGE}.plugin_utils.plan import part\n", "plugin_utils"),
        ("modules/load.py", f"from {PACKAGE}.filter.names import x\n", "filter"),
        ("modules/load.py", "from ..action import store\n", "action"),
        ("modules/load.py", f"from {PACKAGE} import lookup\n", "lookup"),
    ],
)
def test_what_runs_on_nodes_imports_no_other_folder(name: str, text: str, folder: str, tmp_path: Path) -> None:
    (line,) = [one for one in found(tmp_path, {name: text}) if one.startswith(f"plugins/{name}:")]
    assert re.search(rf"imports .*\b{folder}\b", line)


def test_a_crowded_folder_of_tests_has_a_line(tmp_path: Path) -> None:
    assert found(tmp_path) == []
    for number in range(architecture.MOST_FILES + 1):
        (tmp_path / f"tests/unit/test_{number}.py").write_text("")
    (line,) = architecture.mistakes(architecture.read(tmp_path / "plugins"), ROOMS, tmp_path)
    assert line.startswith("tests/unit: 21 files")


def test_a_layer_imports_only_lower_ones(code: architecture.Code) -> None:
    seen = architecture.arrows(code)
    for floor in architecture.FLOORS:
        above: set[str] = set()
        for layer in architecture.layers(seen, floor):
            assert not [(room, there) for room in layer for there in seen[room] & (above | set(layer))]
            above |= set(layer)


def test_the_tables_say_what_each_room_is_for(tmp_path: Path) -> None:
    assert found(tmp_path) == []
    drawn = architecture.picture(architecture.read(tmp_path / "plugins"))
    assert "| `plan` | 1 | Hold plugin_utils/plan. | *common*, common |" in drawn.splitlines()


def test_the_command_fails_and_names_the_arrow(
    read_once: None, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    rooms = yaml.safe_load(architecture.ROOMS.read_text())
    file = tmp_path / "rooms.yml"
    file.write_text(yaml.safe_dump({**rooms, "module_utils/verify": []}))
    monkeypatch.setattr(architecture, "ROOMS", file)
    assert architecture.main([]) == 1
    assert re.search(
        r"^plugins/module_utils/verify/\w+\.py: imports module_utils/drift,", capsys.readouterr().out, re.MULTILINE
    )


def test_no_picture_of_what_is_wrong_is_written(
    read_once: None, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    rooms, page = tmp_path / "rooms.yml", tmp_path / "architecture.md"
    rooms.write_text(yaml.safe_dump({**yaml.safe_load(architecture.ROOMS.read_text()), "module_utils/verify": []}))
    page.write_text(f"{architecture.BEGIN}{architecture.END}")
    monkeypatch.setattr(architecture, "ROOMS", rooms)
    monkeypatch.setattr(architecture, "PAGE", page)
    assert architecture.main(["--write"]) == 1
    assert page.read_text() == f"{architecture.BEGIN}{architecture.END}"
    assert "--write" not in capsys.readouterr().out


def test_a_page_with_other_arrows_fails_and_one_with_other_counts_does_not(
    read_once: None, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    page = tmp_path / "architecture.md"
    page.write_text(f"{architecture.BEGIN}{architecture.END}")
    monkeypatch.setattr(architecture, "PAGE", page)
    assert architecture.main(["--check"]) == 1
    assert "docs/architecture.md" in capsys.readouterr().out
    assert architecture.main(["--write"]) == 0
    page.write_text(re.sub(r"\| [0-9]+ \| [0-9]+ \|", "| 1 | 2 |", page.read_text()))
    assert architecture.main(["--check"]) == 0
