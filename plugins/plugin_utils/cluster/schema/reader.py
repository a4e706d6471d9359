# SPDX-License-Identifier: GPL-3.0-or-later
"""Read YAML and remember the line of everything in it."""

from __future__ import annotations

import re
from pathlib import Path as FilePath
from typing import Any

import yaml

from .fields import Mistake, Path, dotted

PAGE = "docs/cluster-file.md"
# libyaml where PyYAML has it: ten times faster.
_Loader: Any = getattr(yaml, "CSafeLoader", yaml.SafeLoader)
# YAML 1.1 reads 12:00:00 as 43200, by sixties, and 010 as 8: Slurm would take the first for minutes.
_OTHER_NUMBER = re.compile(r"[-+]?([0-9_]+(:[0-9.]+)+|0[0-9_]+)\Z")
# No number of a cluster file is near to this; Python itself reads and writes no more than 4300 digits.
_DIGITS = 18
# What aliases may add to the values that are written: a profile of a hundred keys, a thousand times.
_ALIASED = 100_000


class ClusterFileError(ValueError):
    """A file with mistakes: `path`, and `mistakes` in the order of the file; then the mistakes of a second file."""

    def __init__(self, path: str, mistakes: list[Mistake], beside: ClusterFileError | None = None) -> None:
        self.path = path
        own = sorted(mistakes, key=lambda mistake: mistake.line)
        self.mistakes: list[Mistake] = [*own, *(beside.mistakes if beside else ())]
        lines = [f"{path}:{one.line}: {one.where}: {one.message}" for one in own]
        super().__init__("\n".join([*lines, *([str(beside)] if beside else [])]))


def read(path: str, page: str = PAGE) -> tuple[dict[str, Any], dict[Path, int], list[Mistake]]:
    """Return the data of a YAML file, the line of every key and value by its path, and keys that are written twice.

    `page`: the page of the documentation that has an example of such a file.
    """
    text = _text(path)
    try:
        reading = _Reading(text)
        data = reading.data()
    except yaml.MarkedYAMLError as error:
        line = error.problem_mark.line + 1 if error.problem_mark else 1
        problem = ", ".join(part for part in (error.context, error.problem) if part)
        indent = "".join(one[: len(one) - len(one.lstrip())] for one in text.splitlines()[line - 1 : line])
        tab = " Indent with blanks; a tab is not allowed." if "\t" in indent else ""
        raise ClusterFileError(path, [Mistake(line, "the file", f"is not YAML: {problem}.{tab}")]) from error
    except (yaml.YAMLError, RecursionError) as error:
        line = text.count("\n", 0, getattr(error, "position", 0)) + 1
        raise ClusterFileError(
            path, [Mistake(line, "the file", f"is not YAML: {' '.join(str(error).split())}")]
        ) from error
    if reading.mistakes:
        raise ClusterFileError(path, reading.mistakes + reading.twice)
    if not isinstance(data, dict):
        raise ClusterFileError(path, [Mistake(1, "the file", f"is not a mapping; {page} has an example.")])
    return data, reading.lines, reading.twice


def _text(path: str) -> str:
    """Return the text of a file, which is UTF-8."""
    try:
        content = FilePath(path).read_bytes()
        return content.decode("utf-8-sig")
    except OSError as error:
        raise ClusterFileError(path, [Mistake(1, "the file", f"cannot be read: {error}")]) from error
    except UnicodeDecodeError as error:
        line = content.count(b"\n", 0, error.start) + 1
        message = f"byte {content[error.start]:#04x} is not UTF-8. Allowed: a file in UTF-8."
        raise ClusterFileError(path, [Mistake(line, "the file", message)]) from error


class _Reading:
    """One pass over a file: plain data, the lines of all of it, and keys that are written twice."""

    def __init__(self, text: str) -> None:
        self.loader = _Loader(text)
        self.lines: dict[Path, int] = {}
        self.mistakes: list[Mistake] = []
        self.twice: list[Mistake] = []
        # Key nodes that a mapping has itself; flattening adds those of a merge (<<) to the same mapping.
        self._own: dict[int, set[int]] = {}

    def data(self) -> Any:
        try:
            root = self.loader.get_single_node()
            if root is None or self._is_too_large(root):
                return None
            return self._plain(root, ())
        finally:
            self.loader.dispose()

    def _is_too_large(self, root: Any) -> bool:
        """Note the innermost value that aliases make too large; nothing is expanded for this, so nine levels cost no more than one."""
        sizes: dict[int, int] = {}

        def size(node: Any) -> int:
            """Return the number of values of a node with its aliases written out, 0 while it is being counted."""
            if id(node) not in sizes:
                sizes[id(node)] = 0
                below = [] if isinstance(node, yaml.ScalarNode) else node.value
                parts = [one for pair in below for one in pair] if isinstance(node, yaml.MappingNode) else below
                total = 1 + sum(map(size, parts))
                if total > len(sizes) + _ALIASED and not self.mistakes:
                    message = f"has over {_ALIASED} values with its aliases (*name) written out. Use fewer, or none within others."
                    self.mistakes.append(Mistake(node.start_mark.line + 1, "the file", message))
                sizes[id(node)] = total
            elif sizes[id(node)] == 0 and not self.mistakes:
                message = "an alias (*name) is within its own anchor. Write the value out."
                self.mistakes.append(Mistake(node.start_mark.line + 1, "the file", message))
            return sizes[id(node)]

        size(root)
        return bool(self.mistakes)

    def _plain(self, node: Any, path: Path) -> Any:
        self.lines.setdefault(path, node.start_mark.line + 1)
        if isinstance(node, yaml.SequenceNode):
            return [self._plain(item, (*path, number)) for number, item in enumerate(node.value)]
        if isinstance(node, yaml.MappingNode):
            return self._mapping(node, path)
        return self._scalar(node, path)

    def _scalar(self, node: Any, path: Path) -> Any:
        if node.tag.endswith((":int", ":float")) and len(node.value) > _DIGITS:
            message = f"a number of {len(node.value)} digits is too long. The most is {_DIGITS}. If it is text, put quotes around it."
            self.mistakes.append(Mistake(node.start_mark.line + 1, dotted(path), message))
            return None
        if node.tag.endswith((":int", ":float")) and _OTHER_NUMBER.match(node.value):
            message = f"{node.value} is another number in YAML than it looks. Put quotes around it."
            self.mistakes.append(Mistake(node.start_mark.line + 1, dotted(path), message))
            return None
        try:
            return self.loader.construct_object(node)
        # PyYAML on what looks like a date and is none, or bears a tag that does not fit.
        except (ValueError, LookupError, AttributeError):
            tag = node.tag.rpartition(":")[2]
            message = f"{node.value!r} looks like a YAML {tag} but is not valid. Put quotes around it."
            self.mistakes.append(Mistake(node.start_mark.line + 1, dotted(path), message))
            return None

    def _mapping(self, node: Any, path: Path) -> dict[Any, Any]:
        own = self._own.setdefault(id(node), {id(key) for key, _unused in node.value})
        self.loader.flatten_mapping(node)
        data: dict[Any, Any] = {}
        seen: dict[Any, int] = {}
        for key_node, value_node in node.value:
            line = key_node.start_mark.line + 1
            if not isinstance(key_node, yaml.ScalarNode):
                self.mistakes.append(Mistake(line, dotted(path), "a key must be text."))
                continue
            key = self._scalar(key_node, path)
            if id(key_node) in own:
                # A merged key may be overridden; one that is written twice is a slip.
                if key in seen:
                    message = f"{key!r} is already in line {seen[key]}. Keep one."
                    self.twice.append(Mistake(line, dotted((*path, key)), message))
                seen[key] = line
            self.lines[(*path, key)] = line
            data[key] = self._plain(value_node, (*path, key))
        return data
