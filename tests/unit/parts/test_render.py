"""Parts as bedplate.cluster.deploy takes them, with what a site changes in them."""

from __future__ import annotations

import json
import os
import subprocess
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

import pytest

from ansible_collections.bedplate.cluster.plugins.plugin_utils.common import shipped
from ansible_collections.bedplate.cluster.plugins.plugin_utils.parts import part_files
from ansible_collections.bedplate.cluster.plugins.plugin_utils.parts.part_files import PartError
from ansible_collections.bedplate.cluster.plugins.plugin_utils.parts.render import SiteChanges, render_part
from ansible_collections.bedplate.cluster.plugins.plugin_utils.parts.site_mistakes import site_mistakes, units_of
from tests.kit import sentences

SENTENCES = Path(__file__).with_name("sentences.txt")
PART = """\
manifest: lamp
packages: "{{ values.packages }}"
files:
  - {path: /etc/lamp.json, json: "{{ values.settings }}"}
  - {for_each: values.rooms, path: "/etc/lamp/{{ item.name }}.conf", template: room.conf.j2, mode: "0600"}
  - {path: /usr/local/bin/lamp, src: lamp.sh, validate_script: check.sh}
units:
  - {name: lamp.service, enabled: true, state: started, restart_after: [/etc/lamp.json]}
  - {for_each: values.rooms, name: "room@{{ item.name }}.service", enabled: true}
site_files: true
"""
VALUES = {"packages": ["lampd"], "settings": {"on": True}, "rooms": [{"name": "hall", "watts": 5}]}


@pytest.fixture(autouse=True)
def roles(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Path]:
    """Have a role lamp alone."""
    for name, text in {
        "parts/lamp.yml": PART,
        "templates/room.conf.j2": "watts={{ item.watts }} of {{ values.packages | join }}\n",
        "files/lamp.sh": "#!/bin/sh\n",
        "files/check.sh": "test -s \"$1\" || { echo 'it is empty' >&2; exit 1; }\n",
    }.items():
        path = tmp_path / "lamp" / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text)
    monkeypatch.setattr(part_files, "ROLES", tmp_path)
    _forget()
    yield tmp_path
    # Other tests of this process read the real roles.
    _forget()


def _forget() -> None:
    for one in (part_files.part_file, units_of, part_files._environment):
        one.cache_clear()


def rendered(site: SiteChanges | None = None, **values: Any) -> dict[str, Any]:
    return render_part("lamp", "lamp", {**VALUES, **values}, site)


def entry(found: Mapping[str, Any], path: str) -> dict[str, Any]:
    return next(one for one in found["files"] if one["path"] == path)


def test_packages_files_and_units_are_as_the_values_say() -> None:
    found = rendered()
    assert (found["manifest"], found["packages"]) == ("lamp", ["lampd"])
    assert json.loads(entry(found, "/etc/lamp.json")["content"]) == {"on": True}
    assert entry(found, "/etc/lamp/hall.conf") == {
        "path": "/etc/lamp/hall.conf",
        "content": "watts=5 of lampd\n",
        "mode": "0600",
    }
    assert entry(found, "/usr/local/bin/lamp")["content"] == "#!/bin/sh\n"
    assert [unit["name"] for unit in found["units"]] == ["lamp.service", "room@hall.service"]
    assert "site_files" not in found


def test_without_an_element_there_is_no_entry() -> None:
    found = rendered(rooms=[])
    assert [one["path"] for one in found["files"]] == ["/etc/lamp.json", "/usr/local/bin/lamp"]
    assert len(found["units"]) == 1


@pytest.mark.parametrize(("text", "code"), [("x", 0), ("", 1)])
def test_a_script_judges_the_file(tmp_path: Path, text: str, code: int) -> None:
    file = tmp_path / "it"
    file.write_text(text)
    command = entry(rendered(), "/usr/local/bin/lamp")["validate"].replace("%s", str(file))
    assert subprocess.run(command, shell=True, env={"PATH": os.environ["PATH"]}).returncode == code


def test_a_program_comes_with_its_unit_which_restarts_when_it_changes(roles: Path) -> None:
    (roles / "lamp/parts/lamp.yml").write_text(
        "units: [{name: a.service, program: gpu.mig_program, restart_after: [/a]}]"
    )
    found = rendered()
    files = [path for path, _text in shipped.files("gpu.mig_program")]
    assert {one["path"] for one in found["files"]} >= set(files)
    assert found["units"] == [{"name": "a.service", "restart_after": ["/a", *files]}]


def test_a_template_of_the_site_replaces_that_of_the_role() -> None:
    seen = []

    def render(path: str, destination: str, variables: Mapping[str, Any]) -> str:
        seen.append((path, destination, variables["values"]["packages"], variables["item"]["name"]))
        return "mine\n"

    found = rendered(SiteChanges({"room.conf.j2": "/site/room.j2"}, render=render))
    assert entry(found, "/etc/lamp/hall.conf")["content"] == "mine\n"
    assert seen == [("/site/room.j2", "/etc/lamp/hall.conf", ["lampd"], "hall")]


def test_files_of_the_site_come_with_the_part_and_drop_ins_with_their_units() -> None:
    extra = {"path": "/etc/mine", "content": "x"}
    found = rendered(SiteChanges(extra_files=[extra], drop_ins={"lamp.service": {"10-site.conf": "[Service]\n"}}))
    assert found["files"][-1] == extra
    assert found["units"][0]["drop_ins"] == {"10-site.conf": "[Service]\n"}


def test_an_owned_unit_without_drop_ins_of_the_site_loses_those_of_before(roles: Path) -> None:
    (roles / "lamp/parts/lamp.yml").write_text(
        "units: [{name: a.service, enabled: true}, {name: b.service, enabled: false}, {name: c.service, state: started}]"
    )
    site = SiteChanges(drop_ins={"b.service": {"x.conf": ""}, "c.service": {"x.conf": ""}})
    assert [one.get("drop_ins") for one in rendered(site)["units"]] == [{}, {}, None]


def test_a_unit_that_another_role_owns_takes_no_drop_in(roles: Path) -> None:
    (roles / "lamp/parts/lamp.yml").write_text("units: [{name: a.service, enabled: true}, {name: c.service}]")
    (text,) = site_mistakes("lamp", {"drop_ins": {"a.service": {}, "c.service": {}}})
    assert text.startswith("lamp_drop_ins: 'c.service' ")


def test_a_drop_in_of_the_site_replaces_one_of_the_part_and_leaves_the_others(roles: Path) -> None:
    (roles / "lamp/parts/lamp.yml").write_text(
        "units: [{name: a.service, enabled: true, drop_ins: {a.conf: role, b.conf: role}}]"
    )
    found = rendered(SiteChanges(drop_ins={"a.service": {"a.conf": "site"}}))
    assert found["units"][0]["drop_ins"] == {"a.conf": "site", "b.conf": "role"}


def test_a_part_that_takes_none_has_none(roles: Path) -> None:
    (roles / "lamp/parts/lamp.yml").write_text(PART.replace("site_files: true", ""))
    assert entry(rendered(), "/etc/lamp.json")
    extra = SiteChanges(extra_files=[{"path": "/etc/mine", "content": "x"}])
    assert [one["path"] for one in rendered(extra)["files"]][-1] == "/usr/local/bin/lamp"


@pytest.mark.parametrize(
    ("text", "values"),
    [
        ("manifst: lamp", {}),
        ("[]", {}),
        ("manifest: lamp\nfiles: [{path: /x, template: gone.j2}]", {}),
        ("manifest: lamp\nfiles: [{path: /x, src: gone.sh}]", {}),
        ("manifest: lamp\nfiles: [{path: /x, template: room.conf.j2}]", {}),
        ("manifest: '{{ values.gone }}'", {}),
    ],
)
def test_a_part_that_cannot_be_rendered_names_role_and_part(roles: Path, text: str, values: dict[str, Any]) -> None:
    (roles / "lamp/parts/lamp.yml").write_text(text)
    with pytest.raises(PartError, match="lamp"):
        rendered(**values)


@pytest.mark.parametrize("text", ["watts={{ values.watts }}\n", "{{ range(3) | join }}\n", "{{ lamp_watts }}\n"])
def test_a_template_knows_its_values_alone_and_an_unknown_name_is_not_empty(roles: Path, text: str) -> None:
    (roles / "lamp/templates/room.conf.j2").write_text(text)
    with pytest.raises(PartError, match=r"room\.conf\.j2"):
        rendered()


def test_an_unknown_part_is_named_with_those_there_are() -> None:
    with pytest.raises(PartError) as caught:
        render_part("lamp", "lmp", {})
    sentences.check(SENTENCES, "an unknown part", [str(caught.value)])


def test_mistakes_of_the_site_are_all_named() -> None:
    choices = {
        "extra_files": [{"path": "etc/x", "content": "y"}],
        "templates": {"rom.conf.j2": "/x"},
        "drop_ins": {"lamp.servce": {}, "room@hall.service": {}, "lamp.service": "x"},
    }
    sentences.check(SENTENCES, "mistakes of the site", list(site_mistakes("lamp", choices)))
    assert list(site_mistakes("lamp", {"extra_files": [], "templates": {"room.conf.j2": "/x"}})) == []


@pytest.mark.parametrize("files", ["x", {"a.conf": 5}, {"a.conf": None}, {"a": "x"}, {"../a.conf": "x"}])
def test_a_drop_in_is_a_file_name_with_a_text(files: Any) -> None:
    (text,) = site_mistakes("lamp", {"drop_ins": {"lamp.service": files}})
    assert text.startswith("lamp_drop_ins: lamp.service: ")
    (text,) = site_mistakes("opensm", {"drop_ins": files})
    assert text.startswith("opensm_drop_ins: ")


def test_drop_ins_of_opensm_are_of_no_unit(roles: Path) -> None:
    (roles / "lamp").rename(roles / "opensm")
    assert list(site_mistakes("opensm", {"drop_ins": {"10-site.conf": "[Service]\n"}})) == []
