# SPDX-License-Identifier: GPL-3.0-or-later
"""Report mistakes, and notices on probable slips, that are found after the cluster file was read."""

from __future__ import annotations

from dataclasses import dataclass, field

from ansible_collections.bedplate.cluster.plugins.module_utils.common.hostlist import fold

from .cluster_model import Cluster
from .reader import ClusterFileError, read
from .schema.fields import Mistakes, Path


@dataclass
class MistakeCollector:
    """Collects mistakes, each with the key to correct. The file is read once more for the line numbers."""

    path: str
    found: list[tuple[tuple[Path, ...], str]] = field(default_factory=list)

    def add(self, where: Path, text: str, *others: Path) -> None:
        """Add a mistake at a key; if the file does not state the key, at the first of `others` that it states."""
        self.found.append(((where, *others), text))

    def lines(self) -> list[str]:
        """Return a line for each mistake, in the order of the file."""
        if not self.found:
            return []
        try:
            lines = read(self.path)[1]
        except ClusterFileError:
            lines = {}
        mistakes = Mistakes(lines)
        for keys, text in self.found:
            mistakes.add(next((key for key in keys if key in lines), keys[0]), text)
        return str(ClusterFileError(self.path, mistakes.found)).split("\n")


def notices(cluster: Cluster) -> list[str]:
    """Return texts on probable slips, which are shown once a run and are not mistakes."""
    used = {name for partition in cluster.partitions.values() for name in partition.nodes}
    unused = [node.name for node in cluster.nodes if node.name not in used]
    if not unused:
        return []
    what = f"node {unused[0]} is" if len(unused) == 1 else f"nodes {fold(unused)} are"
    return [
        f"{cluster.path}: {what} in no partition, so no job runs there. Name them under `partitions`, or use `nodes: all`."
    ]
