# SPDX-License-Identifier: GPL-3.0-or-later
"""Find the lines of Slurm's files and of the cluster file that a refusal of slurmctld is about."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from pathlib import PurePosixPath

from ..cluster.schema import reader
from ..cluster.schema.fields import Path, dotted

# What slurmctld says of a file itself.
_PLACE = re.compile(r"(?P<file>[\w./-]+\.conf)\W+line (?P<line>\d+)|(?P<file2>[\w./-]+\.conf): line (?P<line2>\d+)")
_WORD = re.compile(r"[A-Za-z][A-Za-z0-9_]+")
_SAYS = re.compile(r"\b(?:error|fatal): (?P<text>.*)")
_PAIR = re.compile(r"\s*(?P<key>[A-Za-z][A-Za-z0-9]*)=(?P<value>\"[^\"]*\"|\S*)")
# Words of every second message, which are the beginning of options as well.
_COMMON = {"slurmctld", "slurmdbd", "accounting", "accounting_storage"}
_MOST = 12
# Of connections that come and go with every reconfiguration, of scontrol, which knows less than slurmctld, and of limits
# that slurmctld counts anew with every start.
_NOISE = re.compile(r"Unspecified error|persist_init|PersistInit|_tres_run_secs underflow")
_RESTORED = re.compile(r"^(?:Restored|The previous state|Nothing ).*", re.MULTILINE | re.DOTALL)


def explain(message: str, files: Mapping[str, str], cluster_file: str) -> str:
    """Return a refusal in short: slurmctld's errors, the lines they name, and the state of the files."""
    errors = [match for match in _SAYS.finditer(message) if not _NOISE.search(match[0])]
    said = list(dict.fromkeys(match[0] for match in errors)) or [message.partition("\n---")[0]]
    text = " ".join(match["text"] for match in errors) or message
    places = list(dict.fromkeys(_places(text, files, cluster_file)))
    more = [f"  and {len(places) - _MOST} more lines"] if len(places) > _MOST else []
    named = ["Lines that the message names:", *(f"  {one}" for one in places[:_MOST]), *more] if places else []
    return "\n".join([*said, *named, *_RESTORED.findall(message)])


def _places(said: str, files: Mapping[str, str], cluster_file: str) -> Iterator[str]:
    source = _lines_of(cluster_file)
    for match in _PLACE.finditer(said):
        name = PurePosixPath(match["file"] or match["file2"]).name
        number = int(match["line"] or match["line2"])
        lines = files.get(name, "").splitlines()
        if 0 < number <= len(lines):
            yield _shown(name, number, lines[number - 1], source, cluster_file)
    words = {word.lower() for word in _WORD.findall(said)}
    for name, text in files.items():
        for number, line in enumerate(text.splitlines(), 1):
            pair = _PAIR.match(line)
            if pair and _is_named(pair["key"].lower(), pair["value"].strip('"'), words, said):
                yield _shown(name, number, line, source, cluster_file)


def _is_named(key: str, value: str, words: set[str], said: str) -> bool:
    """Return whether a message names an option, by its name, by its plugin or by its value."""
    if key in words or ("/" in value and value in said):
        return True
    return any(key.startswith(word.replace("_", "")) for word in words - _COMMON if "_" in word)


def _shown(name: str, number: int, line: str, source: Mapping[Path, int], cluster_file: str) -> str:
    text = line if len(line) <= 120 else f"{line[:120]}..."
    pair = _PAIR.match(line)
    key = pair["key"].lower() if pair else ""
    for path, at in source.items():
        if len(path) >= 3 and path[0] in ("slurm", "partitions") and str(path[-1]).lower() == key:
            return f"{name}:{number}: {text}  (from {cluster_file}:{at}: {dotted(path)})"
    return f"{name}:{number}: {text}"


def _lines_of(cluster_file: str) -> Mapping[Path, int]:
    try:
        return reader.read(cluster_file)[1]
    except reader.ClusterFileError:  # which is an error of its own, long before
        return {}
