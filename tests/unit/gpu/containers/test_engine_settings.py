"""Keys are set in files that belong to the site, and nothing else of them changes."""

from __future__ import annotations

import json
import tomllib
from pathlib import Path
from typing import Any

import pytest

from ansible_collections.bedplate.cluster.plugins.module_utils.gpu.containers.engine_settings import (
    SettingsError,
    edited_text,
    read,
)
from ansible_collections.bedplate.cluster.plugins.module_utils.gpu.containers.engines import running
from ansible_collections.bedplate.cluster.plugins.module_utils.gpu.containers.toml_editor import (
    TomlError,
    set_values,
    value_of,
)
from tests.kit import sentences

SENTENCES = Path(__file__).parents[1] / "sentences.txt"

CRI = "io.containerd.grpc.v1.cri"
CDI = {"plugins": {CRI: {"enable_cdi": True}}}
DEBIAN = """\
version = 2

[plugins]
  [plugins."io.containerd.grpc.v1.cri"]
    [plugins."io.containerd.grpc.v1.cri".cni]
      bin_dir = "/usr/lib/cni"  # Debian's
      conf_dir = "/etc/cni/net.d"
  [plugins."io.containerd.internal.v1.opt"]
    path = "/var/lib/containerd/opt"
"""


def merged(now: Any, values: Any) -> Any:
    """What the parsed file has to be."""
    if not isinstance(values, dict):
        return values
    return {**now, **{key: merged(now.get(key, {}), value) for key, value in values.items()}}


@pytest.mark.parametrize(
    "before",
    [
        "",
        DEBIAN,
        DEBIAN.replace('"io.containerd.grpc.v1.cri"]', "'io.containerd.grpc.v1.cri']"),
        'version = 2\n[plugins . "io.containerd.grpc.v1.cri"] # ours\nenable_cdi = false # off\nother = 1\n',
        "# no line end",
        'text = """\n[plugins."io.containerd.grpc.v1.cri"]\nenable_cdi = false\n"""\n',
        'x = [\n  ["a"],\n  ["b"],\n]\n',
        '[[stream]]\nenable_cdi = false\n',
    ],
)  # fmt: skip
def test_toml_has_the_key_and_all_others_as_they_were(before: str) -> None:
    after = set_values(before, CDI)
    assert tomllib.loads(after) == merged(tomllib.loads(before), CDI)
    assert set_values(after, CDI) == after
    assert value_of(after, ("plugins", CRI), "enable_cdi") == "true"


def test_comments_and_order_of_a_toml_file_stay() -> None:
    after = set_values(DEBIAN, CDI).splitlines()
    after.remove("    enable_cdi = true")
    assert after == DEBIAN.splitlines()


def test_several_tables_and_kinds_of_values() -> None:
    values = {"a": {"text": 'with "quotes"', "list": ["x", "y"], "count": 3, "b.c": {"on": False}}, "top": "first"}
    after = set_values("", values)
    assert tomllib.loads(after) == values
    assert set_values(after, values) == after


def test_a_key_at_the_top_comes_before_all_tables() -> None:
    assert tomllib.loads(set_values(DEBIAN, {"oom_score": 1}))["oom_score"] == 1


def test_a_value_of_several_lines_is_not_touched() -> None:
    with pytest.raises(TomlError, match="several lines"):
        set_values("[a]\nlist = [\n 1,\n]\n", {"a": {"list": ["x"]}})


def test_what_is_no_toml_value_is_refused() -> None:
    with pytest.raises(TomlError, match=r"1\.5"):
        set_values("", {"a": 1.5})


@pytest.mark.parametrize("indent", [2, 4, "\t"])
def test_json_keeps_keys_and_indent(indent: int | str) -> None:
    before = json.dumps({"log-driver": "local", "features": {"buildkit": True}}, indent=indent) + "\n"
    after = edited_text(Path("/x"), "json", {"features": {"cdi": True}}, before)
    assert json.loads(after) == {"log-driver": "local", "features": {"buildkit": True, "cdi": True}}
    assert [line for line in after.splitlines() if "log-driver" in line] == [
        line for line in before.splitlines() if "log-driver" in line
    ]
    assert edited_text(Path("/x"), "json", {"features": {"cdi": True}}, after) == after


def test_json_that_says_it_already_is_not_rewritten() -> None:
    before = '{"features":{"cdi":true}, "a":1}'
    assert edited_text(Path("/x"), "json", {"features": {"cdi": True}}, before) == before


@pytest.mark.parametrize(
    ("case", "before", "values"),
    [
        ("no JSON", "{", "JSON"),
        ("a list", "[]", "list"),
        ("a key that is no object", '{"features": true}', "features.*True.*cdi"),
    ],
)
def test_json_that_cannot_take_the_key_is_refused_by_name(case: str, before: str, values: str) -> None:
    with pytest.raises(SettingsError, match=rf"/etc/docker/daemon\.json.*{values}") as caught:
        edited_text(Path("/etc/docker/daemon.json"), "json", {"features": {"cdi": True}}, before)
    sentences.check(SENTENCES, f"settings in JSON: {case}", [caught.value])


def test_a_value_that_is_set_already_keeps_its_line() -> None:
    text = "version=2 # ours\n[plugins]\n  'cdi'=true # yes\n"
    assert set_values(text, {"version": 2, "plugins": {"cdi": True}}) == text


@pytest.mark.parametrize(
    ("before", "after"),
    [
        ("[a]\n  x = 1\n[b]\n  cdi = false\n", "[a]\n  cdi = true\n  x = 1\n[b]\n  cdi = false\n"),
        ("[no name]\n  cdi = false\n[a]\n", "[no name]\n  cdi = false\n[a]\n  cdi = true\n"),
        ("[a]\n# x\n    x = 1\n", "[a]\n    cdi = true\n# x\n    x = 1\n"),
    ],
    ids=["key-of-a-later-table", "header-that-is-none", "indent-of-its-keys"],
)
def test_a_key_is_set_in_its_own_table(before: str, after: str) -> None:
    assert set_values(before, {"a": {"cdi": True}}) == after


def test_a_file_that_is_not_there_is_empty(tmp_path: Path) -> None:
    assert read(tmp_path / "none") == ""
    (tmp_path / "bad").write_bytes(b"\xff")
    with pytest.raises(SettingsError, match="bad"):
        read(tmp_path / "bad")


def processes(tmp_path: Path, *lines: str) -> Path:
    for number, line in enumerate(lines, start=1):
        (tmp_path / str(number)).mkdir()
        (tmp_path / str(number) / "cmdline").write_bytes(line.replace(" ", "\0").encode() + b"\0")
    # As the kernel has them: another name of a process, and files.
    (tmp_path / "self").symlink_to("1")
    (tmp_path / "uptime").write_text("1 1")
    (tmp_path / "99").mkdir()  # has ended meanwhile
    return tmp_path


def test_containers_are_counted_by_engine(tmp_path: Path) -> None:
    proc = processes(
        tmp_path,
        "/usr/bin/containerd-shim-runc-v2 -namespace moby -id a -address /run/containerd/containerd.sock",
        "/usr/bin/containerd-shim-runc-v2 -namespace k8s.io -id b -address /run/containerd/containerd.sock",
        "/usr/bin/conmon --api-version 1 -c x --exit-dir /run/libpod/exits",
        "/usr/bin/conmon -b /run/containers/storage -c y --exit-dir /var/run/crio/exits",
        "vi containerd-shim.txt",
        "",
    )
    assert [running(name, proc) for name in ("docker", "containerd", "crio", "podman")] == [1, 2, 1, 0]
