"""Whatever stands in a cluster file, the answer is a cluster or a list of mistakes: never a traceback."""

from __future__ import annotations

import re
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import yaml
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from ansible_collections.bedplate.cluster.plugins.plugin_utils.cluster import ClusterFileError, load
from ansible_collections.bedplate.cluster.plugins.plugin_utils.hosts.groups import groups_of
from tests.kit import sentences

SENTENCES = Path(__file__).parent / "sentences.txt"

BASE = yaml.safe_load(Path(__file__).with_name("base.yml").read_text(encoding="utf-8"))
BASE["hosts"]["ctl1"]["nics"] = [{"name": "mlx5_0", "rail": 1, "purpose": "storage", "leaf": "leaf-r1", "port": 9}]
BASE["racks"]["r1"]["nvlink_domain"] = 4
BASE["fabric"] |= {
    "leaves": ["svc1"],
    "missing": ["leaf-r1:1"],
    "spare": ["leaf-r1:[7-8]"],
    "partitions": {
        "red": {"pkey": 16, "members": ["gpu01", {"nodes": "ctl1", "membership": "both"}]},
        "blue": {"pkey": 17, "members": ["all"]},
    },
}
ODD = [
    None, True, 0, -1, 1, 99999, 10**30, 1.5, "", " ", "x", "X Y", "a[1-", "a[1-2]", "gpu01", "all", "rack:", ":", "10.0.0.300",
    "10.0.0.0/8", "0.0.0.0/0", "255.255.255.254", "::1", "0-9", "9-0", [], {}, [None], [[]], [{}], {"a": None}, {"": 1}, {1: 2},
    {None: 1}, ["x", "x"], {"names": "q[1-4]"}, {"names": None}, "\u00fc", "a\nb", 'a"b', "a#b", "n" * 80,
]  # fmt: skip
REMOVE = object()


def places(value: Any, path: tuple = ()) -> Iterator[tuple]:
    if path:
        yield path
    for key, below in value.items() if isinstance(value, dict) else enumerate(value) if isinstance(value, list) else ():
        yield from places(below, (*path, key))


def changed(value: Any, path: tuple, new: Any) -> Any:
    """Return a copy with another value at a path; a path that an earlier change took away changes nothing."""
    if not path:
        return new
    if not isinstance(value, dict | list) or (isinstance(value, list) and not isinstance(path[0], int)):
        return value
    copy = value.copy()
    if path[0] not in (copy if isinstance(copy, dict) else range(len(copy))):
        return value
    if new is REMOVE and len(path) == 1:
        del copy[path[0]]
    else:
        copy[path[0]] = changed(copy[path[0]], path[1:], new)
    return copy


@settings(max_examples=200, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(changes=st.lists(st.tuples(st.sampled_from(list(places(BASE))), st.sampled_from([*ODD, REMOVE])), max_size=3))
def test_odd_values_are_mistakes(tmp_path, changes):
    data = BASE
    for path, new in changes:
        data = changed(data, path, new)
    file = tmp_path / "x.bedplate.yml"
    file.write_text(yaml.safe_dump(data), encoding="utf-8")
    cluster, mistakes, told = None, [], ""
    try:
        cluster = load(file)
    except ClusterFileError as error:
        mistakes, told = error.mistakes, str(error)
    assert (cluster is None) == bool(mistakes)
    assert len(told.splitlines()) == len(mistakes)
    if cluster:
        assert set(groups_of(cluster)["bedplate"]) == set(cluster.machines)
        addresses = [machine.address for machine in cluster.machines.values()]
        assert len(set(addresses)) == len(addresses)


def test_unchanged_it_is_right(tmp_path):
    file = tmp_path / "x.bedplate.yml"
    file.write_text(yaml.safe_dump(BASE), encoding="utf-8")
    (red,) = [one for one in load(file).fabric.partitions if one.name == "red"]
    assert red.members == {"gpu01": "full", "ctl1": "both"}


@pytest.mark.parametrize(
    ("content", "line", "says"),
    [
        (b"plugin: bedplate.cluster.racks\n# K\xf6ln\n", 2, " 0xf6 "),
        ("plugin: bedplate.cluster.racks\n".encode("utf-16"), 1, "UTF-8"),
        (b"plugin: bedplate.cluster.racks\nracks:\n\tr1: {}\n", 3, " tab "),
    ],
    ids=["latin-1", "utf-16", "tab"],
)
def test_a_file_that_cannot_be_read_names_the_line_and_what_is_allowed(
    tmp_path: Path, content: bytes, line: int, says: str
) -> None:
    path = tmp_path / "c.bedplate.yml"
    path.write_bytes(content)
    with pytest.raises(ClusterFileError) as caught:
        load(path)
    ((found),) = caught.value.mistakes
    assert found.line == line
    assert says in found.message
    if line == 2:
        sentences.check(SENTENCES, "a file that is not UTF-8", [found.message])


def bomb(depth: int, width: int, merge: bool = False) -> str:
    """Return nested aliases that are width ** depth values when they are written out."""
    name = "<<" if merge else "k"
    lines = ["a0: &a0 {x: 1}"]
    for level in range(1, depth):
        aliases = ", ".join([f"*a{level - 1}"] * width)
        lines.append(f"a{level}: &a{level} {{{name}: [{aliases}]}}")
    return "\n".join(lines) + "\n"


@pytest.mark.parametrize("merge", [False, True], ids=["aliases", "merges"])
def test_nested_aliases_are_refused_in_time_with_their_line(tmp_path, merge):
    path = tmp_path / "a.bedplate.yml"
    path.write_text(bomb(9, 12, merge))
    start = time.process_time()
    with pytest.raises(ClusterFileError) as told:
        load(path)
    assert time.process_time() - start < 0.5
    (mistake,) = told.value.mistakes
    # Five levels of twelve are the first that are too many.
    assert mistake.line == 6
    assert "100000 values" in mistake.message


def test_an_alias_within_its_own_value_is_refused(tmp_path):
    path = tmp_path / "a.bedplate.yml"
    path.write_text("plugin: x\nracks: &r\n  a: [*r]\n")
    with pytest.raises(ClusterFileError) as told:
        load(path)
    assert [(one.line, one.where) for one in told.value.mistakes] == [(2, "the file")]


def test_many_uses_of_an_anchor_are_fine(tmp_path):
    data = {**BASE, "racks": {f"a{number}": {"nodes": f"n{number}"} for number in range(150)}}
    del data["fabric"], data["services"]["controllers"]
    data["services"]["controllers"] = ["ctl1"]
    text = yaml.safe_dump(data).replace("10.0.0.0/24", "10.0.0.0/23").replace("10.0.1.0/24", "10.0.2.0/23")
    text = text.replace("racks:\n", "racks:\n  a: &a {profile: gpu8, row: '1', nodes: n999}\n", 1)
    path = tmp_path / "a.bedplate.yml"
    path.write_text(re.sub(r"^  a(\d+):\n", r"  a\1:\n    <<: *a\n", text, flags=re.MULTILINE))
    assert len(load(path).nodes) == 151


@pytest.mark.parametrize("number", ["9" * 6000, "0x" + "f" * 6000, "1e" + "9" * 6000])
def test_a_number_without_end_is_a_mistake_that_can_be_read(tmp_path, number):
    path = tmp_path / "a.bedplate.yml"
    text = yaml.safe_dump(BASE, sort_keys=False).replace("MessageTimeout: 30", f"MessageTimeout: {number}")
    path.write_text(text)
    with pytest.raises(ClusterFileError) as told:
        load(path)
    (mistake,) = told.value.mistakes
    assert text.splitlines()[mistake.line - 1].strip().startswith("MessageTimeout")
    assert len(str(told.value)) < 500
