# SPDX-License-Identifier: GPL-3.0-or-later
"""Print the rooms of plugins/ with their arrows, and fail where the code has an arrow that tools/rooms.yml does not have.

A room is a folder of Python modules below module_utils or plugin_utils. An arrow from A to B: a module of A imports a module of B.
module_utils is what runs on nodes: the modules, the programs that roles install there, and what these import. All else is in plugin_utils.

Usage: python -m tools.architecture [--check | --write]

--check prints mistakes alone; --write puts the picture into docs/architecture.md. Exit status: 0, or 1 with one line per mistake.
"""

from __future__ import annotations

import argparse
import ast
import sys
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path

import yaml

ROOT = Path(__file__).parents[1]
ROOMS = ROOT / "tools" / "rooms.yml"
PAGE = ROOT / "docs" / "architecture.md"
PACKAGE = "ansible_collections.bedplate.cluster.plugins"
NODES, CONTROL, MODULES = "module_utils", "plugin_utils", "modules"
FLOORS = (NODES, CONTROL)
MOST_FILES = 20
MOST_WORDS = 12
BEGIN, END = "<!-- rooms: begin, written by tools/architecture.py -->\n", "<!-- rooms: end -->\n"


@dataclass(frozen=True)
class Code:
    """The modules below plugins/ by dotted name, and what each imports of them."""

    paths: Mapping[str, Path]
    imports: Mapping[str, frozenset[str]]
    # Modules of module_utils that roles install on nodes as programs.
    programs: frozenset[str]
    # Module -> the full names of what it imports, relative imports left out.
    full_names: Mapping[str, frozenset[str]]
    # Module -> the folders directly below plugins/ that it imports from, a folder as a whole included.
    tops: Mapping[str, frozenset[str]]

    def closure(self, roots: Iterable[str]) -> set[str]:
        """Return the modules that the roots need, packages included."""
        found: set[str] = set()
        todo = list(roots)
        while todo:
            name = todo.pop()
            if name not in found:
                found.add(name)
                todo += [*self.imports[name], *(one for one in _packages(name) if one in self.paths)]
        return found

    def room(self, name: str) -> str:
        """Return the room of a module: its folder below plugins/."""
        package = name if self.paths[name].name == "__init__.py" else name.rpartition(".")[0]
        return package.replace(".", "/")


def read(plugins: Path) -> Code:
    """Read all Python files below plugins/."""
    paths = {_name(path, plugins): path for path in sorted(plugins.rglob("*.py"))}
    trees = {name: ast.parse(path.read_text(encoding="utf-8")) for name, path in paths.items()}
    named = {name: _imported_names(name, tree, paths) for name, tree in trees.items()}
    return Code(
        paths,
        imports={name: frozenset(names & paths.keys()) for name, names in named.items()},
        programs=frozenset(f"{NODES}.{one}" for one in _programs(plugins.parent / "roles")),
        full_names={name: frozenset(_full_names(tree)) for name, tree in trees.items()},
        tops={name: frozenset(one.partition(".")[0] for one in names) for name, names in named.items()},
    )


def _packages(name: str) -> Iterator[str]:
    parts = name.split(".")
    return (".".join(parts[:end]) for end in range(1, len(parts)))


def _name(path: Path, plugins: Path) -> str:
    parts = path.relative_to(plugins).with_suffix("").parts
    return ".".join(parts[:-1] if parts[-1] == "__init__" else parts)


def _imported_names(name: str, tree: ast.AST, paths: Mapping[str, Path]) -> set[str]:
    """Return the dotted names below plugins/ that a module imports: of modules, of packages, or of folders without __init__.py."""
    package = name.split(".") if paths[name].name == "__init__.py" else name.split(".")[:-1]
    found = {one[len(PACKAGE) + 1 :] for one in _full_names(tree) if one.startswith(f"{PACKAGE}.")}
    for node in ast.walk(tree):
        if not isinstance(node, ast.ImportFrom):
            continue
        module = node.module or ""
        if node.level:
            base = ".".join([*package[: len(package) - node.level + 1], *([module] if module else [])])
        elif module == PACKAGE or module.startswith(f"{PACKAGE}."):
            base = module[len(PACKAGE) + 1 :]
        else:
            continue
        names = {f"{base}.{alias.name}".lstrip(".") for alias in node.names}
        found |= {one if one in paths or not base else base for one in names}
    return found


def _full_names(tree: ast.AST) -> Iterator[str]:
    for node in ast.walk(tree):
        if isinstance(node, ast.Import):
            yield from (alias.name for alias in node.names)
        elif isinstance(node, ast.ImportFrom) and not node.level:
            yield node.module or ""


def _programs(roles: Path) -> Iterator[str]:
    """Yield the modules that units of parts name as their `program`."""
    for path in sorted(roles.glob("*/parts/*.yml")):
        for unit in yaml.safe_load(path.read_text(encoding="utf-8")).get("units") or ():
            if "program" in unit:
                yield unit["program"]


def arrows(code: Code) -> dict[str, set[str]]:
    """Return room -> rooms that it imports, of the two floors."""
    found: dict[str, set[str]] = {}
    for name, imported in code.imports.items():
        if name.startswith(FLOORS) and name not in FLOORS:
            here = code.room(name)
            found.setdefault(here, set()).update({code.room(one) for one in imported} - {here})
    return {here: there for here, there in found.items() if _modules(code, here)}


def _modules(code: Code, room: str) -> list[Path]:
    return [path for name, path in code.paths.items() if code.room(name) == room and path.name != "__init__.py"]


def mistakes(code: Code, allowed: Mapping[str, Iterable[str]], root: Path) -> list[str]:
    """Return a line for each arrow that is not allowed, each file on the wrong floor, each circle and each crowded folder."""
    seen = arrows(code)
    return [
        *_arrows(code, seen, allowed, root),
        *_floors(code, root),
        *_imports_of_floors(code, root),
        *_circles(seen),
        *_crowded(root),
        *_purposes(code, seen),
    ]


def _arrows(
    code: Code, seen: Mapping[str, set[str]], allowed: Mapping[str, Iterable[str]], root: Path
) -> Iterator[str]:
    permitted = {here: set(there or ()) for here, there in allowed.items()}
    for here, rooms in sorted(seen.items()):
        if here not in permitted:
            yield f"{here}: this room is not in tools/rooms.yml; add it with its arrows, or move its files"
            continue
        yield from (
            f"{_importer(code, here, there, root)}: imports {there}, and tools/rooms.yml does not allow it for {here}; move the code, "
            "or add the arrow and say in the commit why"
            for there in sorted(rooms - permitted[here])
        )
        yield from (
            f"{here} -> {there}: nothing uses this arrow; remove it from tools/rooms.yml"
            for there in sorted(permitted[here] - rooms)
        )
    yield from (
        f"{here}: this room does not exist; remove it from tools/rooms.yml"
        for here in sorted(set(permitted) - set(seen))
    )


def _importer(code: Code, here: str, there: str, root: Path) -> Path:
    """Return the first file of a room that imports another room."""
    files = (
        path for name, path in code.paths.items()
        if code.room(name) == here and there in {code.room(one) for one in code.imports[name]}
    )  # fmt: skip
    return next(files).relative_to(root)


def _floors(code: Code, root: Path) -> Iterator[str]:
    on_nodes = code.closure([*(name for name in code.paths if name.startswith(f"{MODULES}.")), *code.programs])
    for name, path in code.paths.items():
        where, floor = path.relative_to(root), name.partition(".")[0]
        if floor == NODES and name != NODES and name not in on_nodes:
            yield f"{where}: no module and no program of a node imports this file; move it to plugin_utils"
        others = code.tops[name]
        if floor in (NODES, MODULES) and CONTROL in others:
            yield f"{where}: runs on nodes and imports plugin_utils"
        if floor in (*FLOORS, MODULES) and (plugins := sorted(others - set(FLOORS))):
            home = CONTROL if floor == CONTROL else NODES
            yield f"{where}: imports plugins of the folder {', '.join(plugins)}; move what it needs to {home}"


def _imports_of_floors(code: Code, root: Path) -> Iterator[str]:
    """Yield what nodes do not have, and imports within a floor that are not relative."""
    for name, path in code.paths.items():
        where, floor = path.relative_to(root), name.partition(".")[0]
        tops = (
            {one.partition(".")[0] for one in code.full_names[name]} - sys.stdlib_module_names - {"ansible_collections"}
        )
        if floor == NODES and tops:
            yield f"{where}: imports {', '.join(sorted(tops))}; allowed on nodes: Python's standard library and module_utils"
        if floor in FLOORS and any(one.startswith(f"{PACKAGE}.{floor}.") for one in code.full_names[name]):
            yield f"{where}: imports {floor} by its full name; write a relative import"


def _circles(seen: Mapping[str, set[str]]) -> Iterator[str]:
    """Yield one circle of each set of rooms that import each other."""
    known: set[str] = set()
    for room in sorted(seen):
        path = [] if room in known else _way(seen, room, room)
        if path:
            known |= set(path)
            yield f"{' -> '.join(path)}: these rooms import each other in a circle"


def _way(seen: Mapping[str, set[str]], start: str, end: str) -> list[str]:
    """Return the shortest way along arrows from a room to another, or back to itself; empty if no way exists."""
    before: dict[str, str] = {}
    todo = [start]
    for here in todo:
        for there in sorted(seen.get(here, ())):
            if there == end:
                way = [end, here]
                while way[-1] != start:
                    way.append(before[way[-1]])
                return way[::-1]
            if there not in before:
                before[there] = here
                todo.append(there)
    return []


def _crowded(root: Path) -> Iterator[str]:
    tops = [*(root / "plugins" / floor for floor in FLOORS), root / "tests" / "unit"]
    for folder in (one for top in tops for one in [top, *sorted(top.rglob("*/"))]):
        count = sum(one.is_file() for one in folder.glob("*"))
        if count > MOST_FILES and "__pycache__" not in folder.parts:
            yield f"{folder.relative_to(root)}: {count} files, __init__.py and data counted; allowed: {MOST_FILES}. Make a folder of some"


def _purposes(code: Code, seen: Iterable[str]) -> Iterator[str]:
    for room in sorted(seen):
        if not 0 < len(_purpose(code, room).split()) <= MOST_WORDS:
            yield (
                f"plugins/{room}/__init__.py: no sentence on what the room is for. "
                f"Write it as the docstring, in at most {MOST_WORDS} words."
            )


def _purpose(code: Code, room: str) -> str:
    """Return the docstring of a room's `__init__.py` on one line, "" without one."""
    path = code.paths.get(room.replace("/", "."))
    text = ast.get_docstring(ast.parse(path.read_text(encoding="utf-8"))) if path else None
    return " ".join((text or "").split())


def layers(seen: Mapping[str, set[str]], floor: str) -> list[list[str]]:
    """Return the rooms of a floor from the top down: a room imports only rooms of lower layers."""
    rooms = {
        here: {one for one in there if one in seen and one.startswith(floor)}
        for here, there in seen.items()
        if here.startswith(floor)
    }
    found: list[list[str]] = []
    left = dict(rooms)
    while left:
        ready = sorted(here for here, there in left.items() if not there & left.keys()) or sorted(left)
        found.append(ready)
        left = {here: there for here, there in left.items() if here not in ready}
    return found[::-1]


def picture(code: Code) -> str:
    """Return the rooms of both floors as Markdown: a table for each floor, the top layer first."""
    seen = arrows(code)
    lines = []
    for floor, title in ((CONTROL, "Control node: `plugins/plugin_utils`"), (NODES, "Nodes: `plugins/module_utils`")):
        lines += [f"**{title}**", "", "| room | files | what it is for | imports |", "|---|---|---|---|"]
        lines += [_row(code, room, seen[room]) for layer in layers(seen, floor) for room in layer]
        lines.append("")
    return "\n".join(lines)


def _row(code: Code, room: str, imported: Iterable[str]) -> str:
    names = ", ".join(_short(room, one) for one in sorted(imported))
    return f"| `{_inside(room)}` | {len(_modules(code, room))} | {_purpose(code, room)} | {names or '-'} |"


def _inside(room: str) -> str:
    return room.partition("/")[2] or room


def _short(room: str, other: str) -> str:
    """Return another room's name; one of the other floor in italics."""
    return _inside(other) if other.partition("/")[0] == room.partition("/")[0] else f"*{_inside(other)}*"


def page(text: str, drawn: str) -> str:
    """Return the page with the picture of today."""
    before, _, rest = text.partition(BEGIN)
    _, _, after = rest.partition(END)
    return f"{before}{BEGIN}\n{drawn}\n{END}{after}"


def main(arguments: list[str] | None = None) -> int:
    """Print the picture, or only the mistakes."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0] if __doc__ else "")
    choice = parser.add_mutually_exclusive_group()
    choice.add_argument("--check", action="store_true", help="print mistakes alone")
    choice.add_argument("--write", action="store_true", help="write the picture into docs/architecture.md")
    options = parser.parse_args(arguments)
    code = read(ROOT / "plugins")
    found = mistakes(code, yaml.safe_load(ROOMS.read_text(encoding="utf-8")), ROOT)
    drawn = picture(code)
    text = PAGE.read_text(encoding="utf-8")
    # A picture of what is wrong would read as permitted.
    if options.write and not found:
        PAGE.write_text(page(text, drawn), encoding="utf-8")
    elif not found and _arrows_of(page(text, drawn)) != _arrows_of(text):
        found.append("docs/architecture.md shows other rooms: run python -m tools.architecture --write")
    if found or not options.check:
        print("\n".join(found) if found else drawn)
    return 1 if found else 0


def _arrows_of(text: str) -> list[tuple[str, ...]]:
    """Return each row without its number of files, which may lag behind."""
    rows = [line.split(" | ") for line in text.splitlines() if line.startswith("| `")]
    return [(row[0], *row[2:]) for row in rows]


if __name__ == "__main__":
    sys.exit(main())
