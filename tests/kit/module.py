# SPDX-License-Identifier: GPL-3.0-or-later
"""Run the `main` of a module in this process, with parameters as Ansible has parsed them."""

from __future__ import annotations

from collections.abc import Mapping
from types import ModuleType
from typing import Any

import pytest


class _EndedError(Exception):
    """A module that has ended, with its result."""


class Module:
    """What a module uses of AnsibleModule to read its parameters, to warn and to end."""

    def __init__(self, params: Mapping[str, Any], check_mode: bool = False) -> None:
        self.params = dict(params)
        self.check_mode = check_mode
        self.warnings: list[str] = []

    def warn(self, text: str) -> None:
        """Keep a warning."""
        self.warnings.append(text)

    def exit_json(self, **result: Any) -> None:
        """End with a result."""
        raise _EndedError(result)

    def fail_json(self, **result: Any) -> None:
        """End with a failure."""
        self.exit_json(failed=True, **result)


def result_of(monkeypatch: pytest.MonkeyPatch, python: ModuleType, module: Module) -> dict[str, Any]:
    """Return the result of `python.main()`, where `python` is a module of plugins/modules."""
    monkeypatch.setattr(python, "AnsibleModule", lambda **_: module)
    with pytest.raises(_EndedError) as ended:
        python.main()
    return dict(ended.value.args[0])
