"""Configurations that fail: the rows of molecule/slurm/tests/broken_configurations.yml, and their cluster files."""

from __future__ import annotations

import textwrap
from pathlib import Path
from typing import Any

import yaml

from lab.scenario_site import CLUSTER_FILE
from tests.kit import ROOT

ROWS: list[dict[str, Any]] = yaml.safe_load((ROOT / "molecule/slurm/tests/broken_configurations.yml").read_text())
_OPTIONS = "    SlurmdParameters: config_overrides\n"


def configuration(row: dict[str, Any], directory: Path) -> Path:
    """Write the cluster file of a row and the files beside it, and return its path."""
    text = CLUSTER_FILE
    if options := row.get("options"):
        text = text.replace(_OPTIONS, _OPTIONS + textwrap.indent(yaml.safe_dump(options), " " * 4))
    for section in ("scripts", "cgroup"):
        if section in row:
            block = textwrap.indent(yaml.safe_dump({section: row[section]}), " " * 2)
            text = text.replace("slurm:\n", f"slurm:\n{block}", 1)
    for name, content in row.get("files", {}).items():
        filled = "# filled\n" * (content // 9) if isinstance(content, int) else content
        (directory / name).write_bytes(filled if isinstance(filled, bytes) else filled.encode())
    path = directory / "slurm.bedplate.yml"
    path.write_text(text)
    return path
