# SPDX-License-Identifier: GPL-3.0-or-later
"""Templates rendered on the control node: which variables they know, what they may give, and when one result is for all hosts."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
from ansible import constants
from ansible.inventory.host import Host
from ansible.parsing.dataloader import DataLoader
from ansible.template import Templar

from ansible_collections.bedplate.cluster.plugins.plugin_utils.common.rendering import Renderer, RenderError


class Task:
    """A task in a folder with templates and files, and the variables of its play, role and own."""

    def __init__(
        self, folder: Path, own: Mapping[str, Any] | None = None, play: str = "p1", role: str = "", **parameters: Any
    ) -> None:
        self._folder, self._own, self._parameters = folder, dict(own or {}), parameters
        self._uuid = play
        self._role = SimpleNamespace(get_name=lambda: role, get_role_params=lambda _chain: parameters) if role else None
        self.asked: list[Host] = []

    def get_search_path(self) -> list[str]:
        return [str(self._folder)]

    def get_dep_chain(self) -> list[Any]:
        return []

    def get_play(self) -> Task:
        return self

    def get_vars(self) -> dict[str, Any]:
        return self._own

    def get_include_params(self) -> dict[str, Any]:
        return {}

    def get_variable_manager(self) -> Any:
        return SimpleNamespace(get_vars=self._variables)

    def _variables(self, play: Task, host: Host, task: Task, include_hostvars: bool) -> dict[str, Any]:
        self.asked.append(host)
        assert not include_hostvars
        role = self._role.get_name() if self._role else ""
        return {"play": self._uuid, "role": role, "inventory_hostname": host.name, **self._parameters, **self._own}


def renderer(task: Task, **variables: Any) -> Renderer:
    loader = DataLoader()
    return Renderer(task, Templar(loader=loader, variables=variables), loader, variables)


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setattr(constants, "DEFAULT_LOCAL_TMP", str(tmp_path))
    for name in ("templates", "files"):
        (tmp_path / name).mkdir()
    return tmp_path


def rendered(folder: Path, text: str, **variables: Any) -> str:
    (folder / "templates/a.j2").write_text(text)
    return renderer(Task(folder), **variables).template("a.j2", "/etc/a").decode()


def test_lines_of_statements_leave_no_empty_lines(folder: Path) -> None:
    assert rendered(folder, "{% for one in ['a', 'b'] %}\n{{ one }}\n{% endfor %}\n") == "a\nb\n"


@pytest.mark.parametrize(("value", "text"), [("a", "a"), (7, "7"), (1.5, "1.5"), (None, "")])
def test_a_text_and_a_number_are_contents(folder: Path, value: Any, text: str) -> None:
    assert rendered(folder, "{{ value }}", value=value) == text


@pytest.mark.parametrize(("value", "kind"), [({"a": 1}, "a mapping"), (["a"], "a list"), (True, "true or false")])
def test_a_structure_is_no_content(folder: Path, value: Any, kind: str) -> None:
    with pytest.raises(RenderError, match=f"gives {kind}, "):
        rendered(folder, "{{ value }}", value=value)


def test_a_template_of_the_site_knows_values_before_variables_of_that_name(folder: Path) -> None:
    (folder / "templates/a.j2").write_text("{{ values.port }} {{ site }}")
    found = renderer(Task(folder), values="a variable", site="west")
    assert found.site_template("a.j2", "/etc/a", {"values": {"port": 22}}) == "22 west"


def test_a_folder_is_no_file(folder: Path) -> None:
    (folder / "files/several").mkdir()
    (folder / "files/one").write_bytes(b"\xff\n")
    assert renderer(Task(folder)).file("one") == b"\xff\n"
    with pytest.raises(RenderError, match="several"):
        renderer(Task(folder)).file("several")


@pytest.mark.parametrize(
    "other",
    [
        {"own": {"port": 2}},
        {"own": {"port": 1}, "play": "p2"},
        {"own": {"port": 1}, "role": "other"},
        {"own": {"port": 1}, "role": "one", "colour": "red"},
    ],
)
def test_one_result_is_for_tasks_alike_alone(folder: Path, other: dict[str, Any]) -> None:
    (folder / "templates/a.j2").write_text("{{ port }} {{ play }} {{ role }} {{ colour | default('') }}")
    first = {"own": {"port": 1}, "role": "one" if "role" in other else ""}
    texts = [renderer(Task(folder, **kind)).cluster_template("a.j2") for kind in (first, first, other)]
    assert texts[0] == texts[1] != texts[2]


def test_a_result_for_all_hosts_is_that_of_no_host(folder: Path) -> None:
    (folder / "templates/a.j2").write_text("{{ play }} {{ inventory_hostname | default('nobody') }}")
    task = Task(folder)
    assert renderer(task, inventory_hostname="gpu01").cluster_template("a.j2") == b"p1 nobody"
    assert [host.get_groups() for host in task.asked] == [[]]
