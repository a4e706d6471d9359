# SPDX-License-Identifier: GPL-3.0-or-later
"""Values of a role's variables on one host, without a template per variable.

Most variables are as the role's defaults have them, and cost nothing here. One that is set is templated if it is a template, checked
with the role's argument spec, and has its type then.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from copy import deepcopy
from functools import cache
from typing import Any

from ansible.module_utils.common.arg_spec import ArgumentSpecValidator
from ansible.module_utils.common.yaml import yaml_load

from .role_interfaces import ROLES, has_template, role_options, spec_mistakes

_UNSET = object()


class RoleChoiceError(ValueError):
    """Variables that the argument spec does not allow; a line for each."""


@cache
def defaults(role: str) -> dict[str, Any]:
    """Return the defaults of a role, as defaults/main.yml has them."""
    found: dict[str, Any] = yaml_load((ROLES / role / "defaults/main.yml").read_text(encoding="utf-8")) or {}
    return found


def role_choices(role: str, variables: Mapping[str, Any], template: Callable[[Any], Any]) -> dict[str, Any]:
    """Return what is behind `<role>_` in the name of each variable of a role -> its value.

    `variables` are those of the host, as Ansible has them; `template` renders one of their values. RoleChoiceError: not allowed.
    """
    given = defaults(role)
    found, mistakes = {}, []
    for name, option in role_options(role).items():
        value = variables.get(name, _UNSET)
        default = given.get(name)
        if value is _UNSET or value is default or (type(value) is type(default) and value == default):
            value = deepcopy(default)
        if has_template(value):
            value = template(value)
        if value != default:
            mistakes += [f"{name}: {text}" for text in spec_mistakes(name, option, value)]
            value = ArgumentSpecValidator({name: option}).validate({name: value}).validated_parameters.get(name)
        found[name.removeprefix(f"{role}_")] = value
    if mistakes:
        raise RoleChoiceError("\n".join(mistakes))
    return found
