"""What a part may say: values, and lists of them."""

from __future__ import annotations

from typing import Any

import pytest

from ansible_collections.bedplate.cluster.plugins.plugin_utils.parts.placeholders import (
    PlaceholderError,
    Scope,
    filled,
)

SCOPE = Scope(
    {"name": "rdma", "count": 3, "on": True, "packages": ["a", "b"], "rows": [{"x": 1}, {"x": 2}], "none": []}
)


@pytest.mark.parametrize(
    ("value", "result"),
    [
        ("{{ values.packages }}", ["a", "b"]),
        ("/etc/{{ values.name }}-{{ values.count }}.conf", "/etc/rdma-3.conf"),
        ([{"for_each": "values.rows", "n": "{{ item.x }}"}, "end"], [{"n": 1}, {"n": 2}, "end"]),
        ([{"for_each": "values.packages", "n": "{{ item }}.service"}], [{"n": "a.service"}, {"n": "b.service"}]),
        ([{"for_each": "values.none", "path": "/x"}], []),
        ({"mode": "0644", "on": True, "n": 5}, {"mode": "0644", "on": True, "n": 5}),
    ],
)
def test_placeholders_are_filled_and_a_whole_value_keeps_its_type(value: Any, result: Any) -> None:
    assert filled(value, SCOPE) == result


def test_a_value_that_looks_like_a_placeholder_is_not_filled_again() -> None:
    assert filled("a {{ values.x }}", Scope({"x": "{{ values.y }}"})) == "a {{ values.y }}"


@pytest.mark.parametrize(
    "value",
    [
        "{{ values.gone }}",
        "{{ values }}",
        "{{ item }}",
        "{{ other.name }}",
        "{{values.name}}",
        "{{ values.name | upper }}",
        "{{ values.name.x }}",
        "{% if values.name %}x{% endif %}",
        "{# note #}",
        "x {{ values.packages }}",
        "on={{ values.on }}",
        [{"for_each": "values.name"}],
        [{"for_each": "values.rows.x"}],
        [{"for_each": "packages"}],
        [{"for_each": "values.rows", "n": "{{ item.y }}"}],
    ],
)
def test_anything_else_is_refused(value: Any) -> None:
    with pytest.raises(PlaceholderError):
        filled(value, SCOPE)
