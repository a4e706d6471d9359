"""Templates of a site are rendered with the variables of a host before any node is touched."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
from ansible.parsing.dataloader import DataLoader
from ansible.template import Templar

from ansible_collections.bedplate.cluster.plugins.plugin_utils.roles.host_decision import RunHost
from ansible_collections.bedplate.cluster.plugins.plugin_utils.roles.site_host import SiteHost
from ansible_collections.bedplate.cluster.plugins.plugin_utils.roles.site_templates import (
    TemplateCheck,
    role_variables,
    template_mistakes,
    with_unread,
)
from ansible_collections.bedplate.cluster.plugins.plugin_utils.roles.unread import Unread
from tests.kit import sentences

SENTENCES = Path(__file__).with_name("sentences.txt")
LAB = str(Path(__file__).parents[3] / "inventories/lab/lab.bedplate.yml")
ROLES = ("node_os", "node_tuning", "rdma", "gpu_driver", "slurm")


def found(folder: Path, text: str, name: str = "gpu01", **variables: Any) -> list[tuple[str, str]]:
    """Return the mistakes where the site's template `t.j2` has this text."""
    (folder / "t.j2").write_text(text)
    known = {"inventory_hostname": name, "bedplate_cluster_file": LAB, **variables}
    manager = SimpleNamespace(get_vars=lambda **_: {"of_all": 1})
    task = SimpleNamespace(
        get_search_path=lambda: [str(folder)], get_variable_manager=lambda: manager, get_play=lambda: None
    )
    loader = DataLoader()

    def check(role: str) -> TemplateCheck:
        return TemplateCheck(task, Templar(loader, known), loader, known, role)

    host = SiteHost(RunHost(known, lambda value: value, lambda *_: "", "admin"), ROLES)
    return list(template_mistakes(host, check))


def extra(folder: Path, **more: Any) -> dict[str, Any]:
    return {"rdma_extra_files": [{"path": "/etc/a", "template": str(folder / "t.j2"), **more}]}


def nccl(folder: Path) -> dict[str, Any]:
    return {"rdma_templates": {"nccl.conf.j2": str(folder / "t.j2")}, "rdma_nccl": {"NCCL_DEBUG": "INFO"}}


@pytest.mark.parametrize(
    "text",
    [
        "{{ inventory_hostname }} {{ site }} {{ rdma_mtu }} {{ ansible_managed }} {{ template_destpath }}",
        "{% if gone is defined %}{{ gone }}{% endif %}{{ gone | default('') }}",
        "{{ hostvars_of | default({}) }}{{ __gone }}",
        # A fact that tasks of a role set.
        "{{ {}.__gone }}",
        "{{ role_name }} {{ role_path }}",
    ],
)
def test_what_a_host_has_is_no_mistake(tmp_path: Path, text: str) -> None:
    assert found(tmp_path, text, site="west", **extra(tmp_path)) == []


def test_an_undefined_variable_is_named_with_file_line_and_entry(tmp_path: Path) -> None:
    ((role, line),) = found(tmp_path, "sit\n{{ sit }}\n", site="west", **extra(tmp_path))
    assert role == "rdma"
    assert line.startswith(f"rdma_extra_files[0] /etc/a: template: {tmp_path}/t.j2:2: 'sit' is undefined.")
    assert "'site'" in line
    ((role, other),) = found(tmp_path, "{{ values.gone }}", **nccl(tmp_path))
    assert other.startswith(f"rdma_templates: nccl.conf.j2: {tmp_path}/t.j2:1: ")
    ((role, wrong),) = found(tmp_path, "\n{{ [1] | int + 'x' }}", **extra(tmp_path))
    assert wrong.startswith(f"rdma_extra_files[0] /etc/a: template: {tmp_path}/t.j2: ")
    ((role, of_all),) = found(tmp_path, "{{ of_all }}{{ site }}", site=1, **extra(tmp_path, scope="cluster"))
    ((role, no_text),) = found(tmp_path, "{{ values.nccl }}", **nccl(tmp_path))
    assert no_text.startswith(f"rdma_templates: nccl.conf.j2: {tmp_path}/t.j2: gives a ")
    ((role, unlike),) = found(tmp_path, "{{ zzzzz }}", **extra(tmp_path))
    lines = [text.replace(str(tmp_path), "") for text in (line, unlike, of_all)]
    sentences.check(SENTENCES, "a template of the site with an undefined variable", lines)


@pytest.mark.parametrize(
    ("text", "mistakes"),
    [
        ("{{ values.nccl }}{{ item.NCCL_DEBUG }}", 0),
        ("{{ values.nccl }}{{ gone }}", 1),
        ("{{ item.gone }}", 1),
        ("{{ values.gone | default('') }}", 0),
    ],
)
def test_a_template_of_a_role_has_the_values_of_the_host(tmp_path: Path, text: str, mistakes: int) -> None:
    assert len(found(tmp_path, text, **nccl(tmp_path))) == mistakes


def test_a_template_that_the_host_does_not_use_is_no_mistake(tmp_path: Path) -> None:
    variables = nccl(tmp_path)
    assert len(found(tmp_path, "{{ gone }}", **variables)) == 1
    assert found(tmp_path, "{{ gone }}", **{**variables, "rdma_nccl_manage": False}) == []
    assert found(tmp_path, "{{ gone }}", **{**variables, "rdma_manage": False}) == []
    assert found(tmp_path, "{{ gone }}", **extra(tmp_path), rdma_manage=False) == []


@pytest.mark.parametrize(
    ("text", "mistakes"),
    [
        ("{{ values.a.b[0] }}{{ item }}{% for one in values.c %}{{ one.d | join(',') }}{% endfor %}", 0),
        ("{{ values.a > 3 and values.b in values.c }}{{ values.x + 1 }}{{ values.d() | int + 1 }}", 0),
        # Of another error nobody can tell whether the value would make it, too.
        ("{{ values.a | to_nice_json }}", 0),
        ("{{ values.a }}{{ gone }}", 1),
    ],
)
def test_where_the_role_cannot_decide_only_other_variables_are_judged(tmp_path: Path, text: str, mistakes: int) -> None:
    variables = {**nccl(tmp_path), "rdma_mtu": "wrong"}
    assert len(found(tmp_path, text, **variables)) == mistakes


def test_a_value_that_needs_the_node_is_not_judged(tmp_path: Path) -> None:
    known = with_unread("gpu_driver", "driver", {"values": {"driver": "580", "reboot_reasons": []}})["values"]
    assert isinstance(known["reboot_reasons"], Unread)
    assert known["driver"] == "580"
    assert with_unread("rdma", "rdma", {"values": {"nccl": []}}) == {"values": {"nccl": []}}
    unread = Unread()
    assert (str(unread.a["b"]), len(unread), list(unread), bool(unread), int(unread)) == ("", 1, [unread], True, 1)
    assert unread.uses > 0
    assert unread != 1


def test_a_missing_file_and_wrong_syntax_are_reported_elsewhere(tmp_path: Path) -> None:
    assert found(tmp_path, "{% if", **extra(tmp_path)) == []
    assert found(tmp_path, "", rdma_extra_files=[{"path": "/etc/a", "template": "none.j2"}]) == []
    assert found(tmp_path, "", rdma_extra_files=[5, {"path": "/etc/a", "template": 5}], rdma_templates=5) == []


def test_a_lookup_of_a_secret_makes_none(tmp_path: Path) -> None:
    assert found(tmp_path, "{{ 1 // (1 if ansible_check_mode else 0) }}", **extra(tmp_path)) == []


def test_roles_of_one_play_know_the_variables_of_each_other() -> None:
    def names(role: str) -> Mapping[str, Any]:
        return role_variables(role, DataLoader())

    assert {"gpu_driver_prove", "cuda_templates", "dcgm_drop_ins"} <= set(names("cuda"))
    assert "rdma_mtu" not in names("cuda")
    assert "__slurm_controllers" in names("slurm")
