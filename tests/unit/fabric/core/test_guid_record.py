"""The record of GUIDs beside the cluster file."""

from __future__ import annotations

from pathlib import Path

import pytest

from ansible_collections.bedplate.cluster.plugins.plugin_utils.cluster import load
from ansible_collections.bedplate.cluster.plugins.plugin_utils.fabric.core.guid_record import (
    RecordError,
    path_of,
    read,
    record_of,
    text_of,
    with_record,
)
from ansible_collections.bedplate.cluster.plugins.plugin_utils.fabric.plan.cluster_plan import plan_of
from ansible_collections.bedplate.cluster.plugins.plugin_utils.fabric.simulate.netfile import with_guids
from tests.unit.fabric.messages import check_messages

POD = Path(__file__).parents[4] / "inventories/examples/pod-32/pod-32.bedplate.yml"
# A record, and where its mistake is: line and name.
WRONG = {
    "node of another": ('{"a": {"node": "0x1"},\n "b": {"node": "0x1"}}', ':2: "b":'),
    "port of another": ('{"a": {"node": "0x1", "port": "0x2"},\n "b": {"node": "0x2"}}', ':2: "b":'),
    "letters": ('{\n"a": {"node": "0x12g"}}', ':2: "a":'),
    "number": ('{\n\n"a": {"node": 5}}', ':3: "a":'),
    "zeros": ('{"a": {"node": "0x0"}}', ':1: "a":'),
    "ones": (f'{{"a": {{"node": "0x{"f" * 16}"}}}}', ':1: "a":'),
    "too long": ('{"a": {"node": "0x00000000000000001"}}', ':1: "a":'),
    "no node": ('{"a": {"port": "0x5"}}', ':1: "a":'),
    "unknown key": ('{"a": {"node": "0x5", "lid": "7"}}', ':1: "a":'),
    "name twice": ('{"a": {"node": "0x5"},\n"a": {"node": "0x6"}}', ':1: "a":'),
    "node twice": ('{"a": {"node": "0x5", "node": "0x6"}}', ':1: "a":'),
    "text for GUIDs": ('{"a": "0x5"}', ':1: "a":'),
    "list": ("[]", ":1:"),
    "no JSON": ('{"a":\n}', ":2:"),
}


@pytest.mark.parametrize("name", WRONG)
def test_every_mistake_has_its_line_and_name(name: str, tmp_path: Path):
    text, where = WRONG[name]
    path = tmp_path / "pod.guids.json"
    path.write_text(text)
    with pytest.raises(RecordError) as error:
        read(path)
    assert str(error.value).startswith(f"{path}{where} ")
    check_messages(f"record: {name}", error.value, tmp_path)


def test_all_mistakes_at_once(tmp_path: Path):
    path = tmp_path / "pod.guids.json"
    path.write_text('{"a": {"node": "x"},\n"b": {"node": "y", "c": 1}}')
    with pytest.raises(RecordError) as error:
        read(path)
    assert len(str(error.value).splitlines()) == 3


@pytest.mark.parametrize("content", [b'{"a": {"node": "0x1\xff"}}', b"[" * 200_000], ids=["bytes", "brackets"])
def test_a_record_that_cannot_be_read_is_not_an_empty_one(content: bytes, tmp_path: Path):
    path = tmp_path / "pod.guids.json"
    path.write_bytes(content)
    with pytest.raises(RecordError, match=r"pod\.guids\.json:"):
        read(path)
    path.unlink()
    path.mkdir()
    with pytest.raises(RecordError, match=r"cannot be read: .*Is a directory"):
        read(path)


def test_what_is_written_is_read_back(tmp_path: Path):
    plan = with_guids(plan_of(load(POD)))
    path = tmp_path / "pod.guids.json"
    path.write_text(text_of(record_of(plan)))
    assert read(path) == record_of(plan)
    assert with_record(plan_of(load(POD)), read(path)) == plan
    assert text_of(read(path)) == path.read_text()
    assert path.read_text().splitlines()[1].startswith('  "gpu001 mlx5_0": {"node": "0x02')


def test_no_file_is_an_empty_record_and_names_that_left_are_no_mistake(tmp_path: Path):
    assert read(tmp_path / "none.json") == {}
    plan = plan_of(load(POD))
    assert with_record(plan, {"gpu999 mlx5_0": {"node": "0" * 15 + "1"}}) == plan


@pytest.mark.parametrize("name", ["pod.bedplate.yml", "pod.bedplate.yaml", "pod.yml"])
def test_the_record_is_beside_the_cluster_file(name: str):
    assert path_of(f"/site/{name}") == Path("/site/pod.guids.json")
