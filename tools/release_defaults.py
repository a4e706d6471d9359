# SPDX-License-Identifier: GPL-3.0-or-later
"""Write the defaults of a release of bedplate as a snapshot, which later releases compare theirs with.

    python -m tools.release_defaults 0.1.0 58d67da      plugins/plugin_utils/releases/snapshots/0.1.0.json, of that commit

Run it once for a release, on its last commit, when the next one begins. A snapshot that exists is not written again.
"""  # fmt: skip

from __future__ import annotations

import argparse
import io
import json
import subprocess
import sys
import tarfile
import tempfile
from pathlib import Path
from typing import Any

ROOT = Path(__file__).parents[1]
sys.path.insert(0, str(ROOT / "collections"))

from ansible_collections.bedplate.cluster.plugins.plugin_utils.common.role_interfaces import options  # noqa: E402
from ansible_collections.bedplate.cluster.plugins.plugin_utils.releases.default_snapshots import (  # noqa: E402
    SNAPSHOTS,
    defaults,
    driver_name,
)

_SCHEMA = "docs/schema/cluster-file.schema.json"
_PARTS = ("roles", "plugins", "docs/schema")


def of_tree(root: Path) -> dict[str, Any]:
    """Return the defaults of a checkout, read from its data files: its Python may be of another release."""
    slurm, sysctl, stack = (
        _read(_only(root, pattern))
        for pattern in ("slurm/**/defaults.json", "tuning/**/sysctl.json", "gpu*/**/stack.json")
    )
    versions: dict[str, list[str]] = {"dcgm": stack["dcgm"]["versions"], "nccl": list(stack["nccl"]["versions"])}
    for row in stack["drivers"]:
        for system in row["systems"]:
            versions.setdefault(driver_name(row["source"], system), []).append(row["version"])
    return defaults(
        options(root / "roles"),
        _read(root / _SCHEMA),
        {kind: {row["option"]: row["value"] for row in rows} for kind, rows in slurm.items()},
        {row["key"]: row["value"] for row in sysctl["settings"]},
        versions,
    )


def _read(path: Path) -> Any:
    return json.loads(path.read_text(encoding="utf-8"))


def _only(root: Path, pattern: str) -> Path:
    found = sorted((root / "plugins").glob(f"*_utils/{pattern}"))
    if len(found) != 1:
        raise SystemExit(f"{root}/plugins/*_utils/{pattern}: {len(found)} files; exactly one is needed")
    return found[0]


def of_commit(commit: str, repository: Path = ROOT) -> dict[str, Any]:
    """Return the defaults of a commit. CalledProcessError: git does not have it."""
    archive = subprocess.run(
        ["git", "archive", commit, "--", *_PARTS], cwd=repository, stdout=subprocess.PIPE, check=True
    ).stdout
    with tempfile.TemporaryDirectory() as folder, tarfile.open(fileobj=io.BytesIO(archive)) as tar:
        # Python 3.11 before 3.11.4 has no filters.
        tar.extraction_filter = getattr(tarfile, "data_filter", lambda member, _path: member)
        tar.extractall(folder)
        return of_tree(Path(folder))


def text_of(release: str, found: dict[str, Any]) -> str:
    """Return the text of a snapshot."""
    return json.dumps({"release": release, **found}, indent=1, ensure_ascii=False) + "\n"


def main(arguments: list[str] | None = None) -> int:
    """Write the snapshot of a release."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("release", help="such as 0.1.0")
    parser.add_argument("commit", help="its last commit")
    given = parser.parse_args(arguments)
    path = SNAPSHOTS / f"{given.release}.json"
    if path.exists():
        raise SystemExit(f"{path} exists. A released snapshot stays as it is.")
    path.write_text(text_of(given.release, of_commit(given.commit)), encoding="utf-8")
    return 0


if __name__ == "__main__":
    sys.exit(main())
