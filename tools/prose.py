# SPDX-License-Identifier: GPL-3.0-or-later
"""Check the words of pages, task names, messages, schema texts and docstrings against tools/prose.yml.

`python -m tools.prose` checks the places of tools/prose.yml, and `python -m tools.prose plugins lab` other files and folders.
Mistakes are counted by folder at the end.
"""

from __future__ import annotations

import argparse
import ast
import re
import sys
from collections import Counter
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import Any

import yaml

ROOT = Path(__file__).parents[1]
RULES = ROOT / "tools" / "prose.yml"
LOADER = getattr(yaml, "CSafeLoader", yaml.SafeLoader)
TEXT_KEYS = {"msg", "fail_msg", "success_msg", "description", "short_description", "synopsis", "notes"}
"""Keys of YAML whose values are sentences."""
TASK_KEYS = {"tasks", "pre_tasks", "post_tasks", "handlers", "block", "rescue", "always"}
"""Keys of plays and blocks whose values are lists of tasks."""
MESSAGE_WORDS = 4
"""A string literal of at least so many words is a sentence: a message, a remedy, or a text of the schema."""

_CODE = re.compile(r"(`+)(?:(?!\1).)+\1|\{\{.*?\}\}|<!--.*?-->|(?<=\])\([^)]*\)|https?://\S+", re.DOTALL)
_OPTION = re.compile(r"[COVIMPE]\([^)]*\)")
_WORDS = re.compile(r"(?:^|(?<=[\s(]))[A-Za-z][a-z']+(?=[\s,.;:)]|$)")


@dataclass(frozen=True, order=True)
class Text:
    """A text at a line of a file; `kind` is page, task, message or docstring."""

    path: str
    line: int
    kind: str
    text: str


@dataclass(frozen=True)
class Rules:
    """Contents of tools/prose.yml."""

    patterns: tuple[tuple[re.Pattern[str], str], ...]
    docstring: re.Pattern[str]
    verbs: frozenset[str]
    words: int
    width: int
    places: dict[str, list[str]]


@cache
def rules() -> Rules:
    """Return the rules of tools/prose.yml."""
    found: dict[str, Any] = yaml.safe_load(RULES.read_text(encoding="utf-8"))
    return Rules(
        tuple((re.compile(row["pattern"], re.IGNORECASE), row["write"]) for row in found["patterns"]),
        re.compile(found["docstring"]),
        frozenset(found["task_verbs"].split()),
        found["task_words"],
        found["width"],
        found["places"],
    )


def without_code(text: str) -> str:
    """Return a text without code in backquotes, templates, comments and targets of links; lines stay where they are.

    >>> without_code("Set `told: 1` in [a page](told.md).")
    'Set ` ` in [a page].'
    """
    return _OPTION.sub(
        "` `", _CODE.sub(lambda found: "` `" * found[0].startswith("`") + "\n" * found[0].count("\n"), text)
    )


def page_lines(path: Path) -> Iterator[tuple[int, str]]:
    """Yield the lines of prose of a page, with their numbers: no fenced or indented code, no generated table.

    The sources of a generated table are checked instead of it.
    """
    fence, before, generated = "", "", False
    for number, line in enumerate(path.read_text(encoding="utf-8").splitlines(), start=1):
        mark = re.match(r"\s*(```+|~~~+)", line)
        if generated or re.match(r"<!-- [\w ]+: begin", line):
            generated = not re.match(r"<!-- [\w ]+: end", line)
        elif fence:
            fence = "" if mark and mark[1] == fence else fence
        elif mark:
            fence = mark[1]
        elif not (line.startswith("    ") and (not before.strip() or before.startswith("    "))):
            yield number, line
            before = line
            continue
        before = "    " if line.startswith("    ") else ""


def page_texts(path: Path, name: str) -> Iterator[Text]:
    """Yield the paragraphs of a page, so that a pattern also finds words on two lines."""
    start, lines = 0, list[str]()
    for number, line in [*page_lines(path), (-1, "")]:
        if not line.strip() or line.startswith("|") or number != start + len(lines):
            if lines:
                yield Text(name, start, "page", "\n".join(lines))
            start, lines = number, []
        if line.strip():
            start = start if lines else number
            lines.append(line)


def wide_lines(path: Path, width: int) -> Iterator[int]:
    """Yield the numbers of lines of prose that are too long; rows of tables and lines of one long word cannot be wrapped."""
    for number, line in page_lines(path):
        if len(line) > width and not line.startswith(("|", "<!--", "![")) and " " in line.strip().lstrip("*- "):
            yield number


def yaml_texts(node: yaml.Node, name: str, *, tasks: bool) -> Iterator[Text]:
    """Yield task names and sentences of a YAML document."""
    if isinstance(node, yaml.SequenceNode):
        for item in node.value:
            if tasks and isinstance(item, yaml.MappingNode) and item.value and item.value[0][0].value == "name":
                value = item.value[0][1]
                yield Text(name, value.start_mark.line + 1, "task", value.value)
            yield from yaml_texts(item, name, tasks=tasks)
    elif isinstance(node, yaml.MappingNode):
        for key, value in node.value:
            if key.value in TEXT_KEYS:
                for scalar in value.value if isinstance(value, yaml.SequenceNode) else [value]:
                    if isinstance(scalar, yaml.ScalarNode):
                        yield Text(name, scalar.start_mark.line + 1, "message", scalar.value)
            yield from yaml_texts(value, name, tasks=tasks and key.value in TASK_KEYS)


def comments(path: Path, name: str) -> Iterator[Text]:
    """Yield the comments of a file of defaults, which documents each variable."""
    for number, line in enumerate(path.read_text(encoding="utf-8").splitlines(), start=1):
        if line.startswith("#"):
            yield Text(name, number, "message", line)


def sentence(node: ast.expr) -> str | None:
    """Return the text of a string literal with X for its placeholders; None for another expression."""
    if isinstance(node, ast.Constant):
        return node.value if isinstance(node.value, str) else None
    if isinstance(node, ast.JoinedStr):
        return "".join(str(part.value) if isinstance(part, ast.Constant) else "X" for part in node.values)
    return None


def code_texts(path: Path, name: str) -> Iterator[Text]:
    """Yield first lines of docstrings, and all other string literals that are sentences."""
    tree = ast.parse(path.read_text(encoding="utf-8"))
    parts = {part for node in ast.walk(tree) if isinstance(node, ast.JoinedStr) for part in node.values}
    # A string that is a statement is a docstring or documents an attribute.
    documents = {node.value for node in ast.walk(tree) if isinstance(node, ast.Expr)}
    for node in ast.walk(tree):
        if isinstance(node, ast.Module | ast.ClassDef | ast.FunctionDef | ast.AsyncFunctionDef) and (
            text := ast.get_docstring(node)
        ):
            yield Text(name, node.body[0].lineno, "docstring", text.splitlines()[0])
        if isinstance(node, ast.Constant | ast.JoinedStr) and node not in parts and node not in documents:
            literal = sentence(node)
            if literal and len(_WORDS.findall(without_code(literal))) >= MESSAGE_WORDS:
                yield Text(name, node.lineno, "message", literal)


def texts(path: Path) -> Iterator[Text]:
    """Yield all texts of a file that are checked."""
    name = str(path.relative_to(ROOT))
    if path.suffix == ".md":
        yield from page_texts(path, name)
    elif path.suffix == ".py":
        yield from code_texts(path, name)
    elif path.suffix in {".yml", ".yaml"}:
        node = yaml.compose(path.read_text(encoding="utf-8"), Loader=LOADER)
        if node is not None:
            yield from yaml_texts(node, name, tasks="meta" not in path.parts)
        if path.parent.name == "defaults":
            yield from comments(path, name)


def task_mistakes(text: str) -> Iterator[str]:
    """Yield the mistakes in the name of a play or task."""
    words = text.rpartition(" | ")[2].split()
    if "{{" in text:
        return
    if len(words) > rules().words:
        yield f"{len(words)} words; write at most {rules().words}"
    if not words or words[0] not in rules().verbs:
        yield f"begins with {words[0] if words else 'no word'!r}; begin with a verb of task_verbs in tools/prose.yml"


def flattened(text: str) -> tuple[str, list[int]]:
    """Return a text in one line, with one blank between words, and for each word the number of its line, from 0.

    >>> flattened("one\\n# two  three")
    ('one two three', [0, 1, 1])
    """
    words = [(word, number) for number, line in enumerate(text.splitlines()) for word in line.lstrip(" #>").split()]
    return " ".join(word for word, _ in words), [number for _, number in words]


def mistakes(text: Text) -> Iterator[tuple[int, str]]:
    """Yield line and description of each mistake in a text."""
    flat, lines = flattened(without_code(text.text))
    for pattern, write in rules().patterns:
        for found in pattern.finditer(flat):
            yield text.line + lines[flat.count(" ", 0, found.start())], f"{found[0]!r}; write, for example: {write}"
    if text.kind == "docstring" and (opening := rules().docstring.match(text.text)):
        yield text.line, f"docstring begins with {opening[0]!r}; begin with a command: Return the ..."
    if text.kind == "task":
        yield from ((text.line, mistake) for mistake in task_mistakes(text.text))


def files(places: Iterable[str]) -> Iterator[Path]:
    """Yield the files of patterns, files and folders, each once."""
    seen = set[Path]()
    for place in places:
        for path in sorted(ROOT.glob(place)):
            inside = [path] if path.is_file() else sorted(path.rglob("*"))
            for file in inside:
                if file.suffix in {".md", ".py", ".yml"} and file.is_file() and file not in seen:
                    seen.add(file)
                    yield file


def check(places: Iterable[str]) -> Iterator[tuple[str, int, str]]:
    """Yield path, line and description of each mistake in files."""
    for path in files(places):
        name = str(path.relative_to(ROOT))
        for text in texts(path):
            yield from ((name, line, mistake) for line, mistake in mistakes(text))
        if path.suffix == ".md":
            yield from (
                (name, line, f"longer than {rules().width} characters; wrap it")
                for line in wide_lines(path, rules().width)
            )


def main(arguments: list[str] | None = None) -> int:
    """Print the mistakes; return 1 if there are any."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("paths", nargs="*", help="files and folders instead of the places of tools/prose.yml")
    options = parser.parse_args(arguments)
    places = options.paths or [place for kind in rules().places.values() for place in kind]
    found = sorted(set(check(places)))
    for name, line, mistake in found:
        print(f"{name}:{line}: {mistake}")
    folders = Counter(str(Path(name).parent) for name, _, _ in found)
    for folder, number in sorted(folders.items()):
        print(f"{number:6} {folder}")
    return 1 if found else 0


if __name__ == "__main__":
    sys.exit(main())
