# SPDX-License-Identifier: GPL-3.0-or-later
"""What brings the settings at the next boot: files, units, and the boot loader's entries. They can be lost while all is still well."""

from __future__ import annotations

import hashlib
from collections.abc import Collection, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

from ansible_collections.bedplate.cluster.plugins.module_utils.common.finding import Finding
from ansible_collections.bedplate.cluster.plugins.module_utils.gpu.reading import Root, Runner, said
from ansible_collections.bedplate.cluster.plugins.module_utils.node_manifest import STATE_DIRECTORY, NodeFilesError
from ansible_collections.bedplate.cluster.plugins.module_utils.tuning import cmdline_bring
from ansible_collections.bedplate.cluster.plugins.module_utils.tuning.cmdline import CmdlineError

_AGAIN = "run the role {role} again; who changed it?"
_WANTED = "as the role wrote it"


def digest(text: str) -> str:
    """Return what `drift` compares a file by."""
    return hashlib.sha256(text.encode("utf-8")).hexdigest()


def of_deployment(
    role: str, files: Sequence[Mapping[str, Any]], units: Sequence[Mapping[str, Any]], read: Collection[str] = ()
) -> dict[str, Any]:
    """Return what `drift` takes, of the files and units that a role hands to bedplate.cluster.deploy.

    `read` are paths of files that are compared by what is in them, elsewhere.
    """
    return {
        "role": role,
        "files": {one["path"]: digest(one["content"]) for one in files if one["path"] not in read},
        "units": {one["name"]: _wanted_state(one) for one in units},
    }


def _wanted_state(unit: Mapping[str, Any]) -> str:
    return "masked" if unit.get("masked") else "enabled" if unit.get("enabled") else "disabled"


def drift(root: Root, wanted: Mapping[str, Any], run: Runner) -> Iterator[Finding]:
    """Compare files by their digests, and whether units start at boot. A unit that is not installed need not be masked."""
    fix = _AGAIN.format(role=wanted["role"])
    for path, told in wanted["files"].items():
        data = root.raw(path, needed=False)
        if data is None or hashlib.sha256(data).hexdigest() != told:
            yield Finding("file", f"file {path}", _WANTED, "none" if data is None else "changed", fix)
    for name, state in wanted["units"].items():
        asked = run(["systemctl", f"--root={root.top}", "is-enabled", name])
        found = asked.stdout.strip() or ("not installed" if "No such file" in asked.stderr else said(asked))
        if found != state and not (state != "enabled" and found in ("not installed", "not-found")):
            yield Finding("unit", f"unit {name}", state, found, fix)


def drift_of_boot(root: Root, tokens: Sequence[str]) -> Iterator[Finding]:
    """Compare what the boot loader will start the kernel with."""
    fix = _AGAIN.format(role="node_tuning")
    try:
        result = cmdline_bring.bring(root.top, tokens, Path(root.top, STATE_DIRECTORY.lstrip("/")), check=True)
    except (CmdlineError, NodeFilesError) as error:
        yield Finding(
            "boot-loader",
            "boot loader",
            " ".join(tokens),
            "; ".join(error.problems),
            "mend that; then run the role node_tuning again",
        )
        return
    if result["changed"]:
        heads = [diff.get("before_header") or diff["prepared"].strip() for diff in result["diff"]]
        top = str(root.top).rstrip("/")
        yield Finding(
            "boot-loader",
            "boot loader",
            "the tokens of the role",
            f"other ones: {', '.join(heads).replace(top, '')}",
            fix,
        )
