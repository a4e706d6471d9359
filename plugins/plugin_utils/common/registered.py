# SPDX-License-Identifier: GPL-3.0-or-later
"""Read the results that a task registered on all hosts, and write an action plugin's report."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

from ansible.errors import AnsibleActionFail

from ...module_utils.common.files import atomic_write


def results_of(name: Any, variables: Mapping[str, Any], module: str) -> dict[str, dict[str, Any] | None]:
    """Return host -> result of the task of a module that registers `name`, for all hosts of the play.

    None: the task did not reach the host. Results are read as they are: a text of a machine is no template.
    AnsibleActionFail: `name` is not a name.
    """
    if not isinstance(name, str) or not name:
        raise AnsibleActionFail(
            f"registered: not a name; allowed: the name that the task with bedplate.cluster.{module} registers"
        )
    raw = variables["hostvars"].raw_get
    return {host: raw(host).get(name) for host in variables["ansible_play_hosts_all"]}


def write_report(path: Path, text: str, variable: str, mode: int | None = None, *, check: bool = False) -> bool:
    """Write a file of the control node in one step, and return whether its content changes; `variable` names it in the error.

    With `check` nothing is written. AnsibleActionFail: the file cannot be read or written.
    """
    try:
        changes = not path.exists() or path.read_bytes() != text.encode()
        if not check and (changes or mode is not None):
            atomic_write(path, text, mode=mode)
        return changes
    except OSError as error:
        raise AnsibleActionFail(
            f"{variable} {path}: {error.strerror}; allowed: a file that this user may write"
        ) from error
