# SPDX-License-Identifier: GPL-3.0-or-later
"""Read YAML and remember the line of everything in it."""

from __future__ import annotations

from pathlib import Path as FilePath
from typing import Any

import yaml

from .fields import Mistake, Path

# libyaml where PyYAML has it: ten times faster.
_Loader: Any = getattr(yaml, "CSafeLoader", yaml.SafeLoader)


class ClusterFileError(ValueError):
    """A cluster file with mistakes: `path`, and `mistakes` in the order of the file."""

    def __init__(self, path: str, mistakes: list[Mistake]) -> None:
        self.path = path
        self.mistakes = sorted(mistakes, key=lambda mistake: mistake.line)
        super().__init__("\n".join(f"{path}:{one.line}: {one.where}: {one.message}" for one in self.mistakes))


def read(path: str) -> tuple[dict[str, Any], dict[Path, int]]:
    """Return the data of a YAML file, and the line of every key and value by its path."""
    try:
        text = FilePath(path).read_text(encoding="utf-8")
    except (OSError, UnicodeDecodeError) as error:
        raise ClusterFileError(path, [Mistake(1, "the file", f"cannot be read: {error}")]) from error
    loader = _Loader(text)
    try:
        root = loader.get_single_node()
        lines: dict[Path, int] = {}
        mistakes: list[Mistake] = []
        data = _plain(root, (), loader, lines, mistakes) if root else None
    except yaml.MarkedYAMLError as error:
        line = error.problem_mark.line + 1 if error.problem_mark else 1
        raise ClusterFileError(path, [Mistake(line, "the file", f"is not YAML: {error.problem}")]) from error
    finally:
        loader.dispose()
    if mistakes:
        raise ClusterFileError(path, mistakes)
    if not isinstance(data, dict):
        raise ClusterFileError(path, [Mistake(1, "the file", "is no mapping; docs/cluster-file.md has an example.")])
    return data, lines


def _plain(node: Any, path: Path, loader: Any, lines: dict[Path, int], mistakes: list[Mistake]) -> Any:
    lines.setdefault(path, node.start_mark.line + 1)
    if isinstance(node, yaml.SequenceNode):
        return [_plain(item, (*path, number), loader, lines, mistakes) for number, item in enumerate(node.value)]
    if not isinstance(node, yaml.MappingNode):
        return loader.construct_object(node)
    own = {id(key) for key, _ in node.value}
    loader.flatten_mapping(node)
    data: dict[Any, Any] = {}
    seen: dict[Any, int] = {}
    for key_node, value_node in node.value:
        key = loader.construct_object(key_node)
        line = key_node.start_mark.line + 1
        # A merged key (<<) may be overridden; one that is written twice is a slip.
        if key in seen and id(key_node) in own:
            mistakes.append(Mistake(line, ".".join(map(str, (*path, key))), f"{key!r} is here and in line {seen[key]}."))
        if id(key_node) in own:
            seen[key] = line
        lines[(*path, key)] = line
        data[key] = _plain(value_node, (*path, key), loader, lines, mistakes)
    return data
