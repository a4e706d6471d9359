"""Whatever stands in a cluster file, the answer is a cluster or a list of mistakes: never a traceback."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import yaml
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from ansible_collections.bedplate.cluster.plugins.plugin_utils.cluster import ClusterFileError, groups_of, load

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
