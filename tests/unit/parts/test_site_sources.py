"""Files that a site names for a role are read, and templates parsed, before any node is touched."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import pytest

from ansible_collections.bedplate.cluster.plugins.plugin_utils.parts.site_sources import source_mistakes

FILES = {"good.j2": "{% do x.append(1) %}{{ values.a }}", "bad.j2": "a\n{% if x %}\n", "a.bin": "{% if"}


def read(role: str, folder: str, name: str) -> str:
    if name not in FILES:
        raise ValueError(f"{folder}/{name} of {role}: not found")
    return FILES[name]


def found(choices: Mapping[str, Any]) -> list[str]:
    return list(source_mistakes("rdma", choices, read))


@pytest.mark.parametrize(
    "choices",
    [
        {},
        {"templates": {"nccl.conf.j2": "good.j2"}},
        {
            "extra_files": [
                {"path": "/etc/a", "src": "a.bin"},
                {"path": "/etc/b", "template": "good.j2"},
                {"path": "/etc/c", "content": ""},
            ]
        },
        # Reported by the checks of the variables themselves.
        {"templates": {"unknown.j2": "none.j2", "nccl.conf.j2": 5}, "extra_files": ["a", {"src": 5}]},
    ],
)
def test_what_is_right_or_reported_elsewhere(choices: Mapping[str, Any]) -> None:
    assert found(choices) == []


def test_a_file_that_is_missing_and_a_template_that_cannot_be_parsed_are_mistakes() -> None:
    choices = {
        "templates": {"nccl.conf.j2": "none.j2", "bedplate-rdma.service.j2": "bad.j2"},
        "extra_files": [{"path": "/etc/a", "src": "none"}, {"path": "/etc/b", "template": "bad.j2"}],
    }
    missing, broken, source, template = found(choices)
    assert missing == "rdma_templates: nccl.conf.j2: templates/none.j2 of rdma: not found"
    assert broken.startswith("rdma_templates: bedplate-rdma.service.j2: bad.j2:2: ")
    assert source == "rdma_extra_files[0] /etc/a: src: files/none of rdma: not found"
    assert template.startswith("rdma_extra_files[1] /etc/b: template: bad.j2:2: ")
