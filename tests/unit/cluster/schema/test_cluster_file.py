"""The JSON Schema and the table in docs/cluster-file.md say what the checker checks."""

from __future__ import annotations

import configparser
import json
import re
import subprocess
import sys
from pathlib import Path

import jsonschema
import pytest
import yaml

from ansible_collections.bedplate.cluster.plugins.plugin_utils.cluster import load
from ansible_collections.bedplate.cluster.plugins.plugin_utils.cluster.schema.cluster_file import CLUSTER_FILE

ROOT = Path(__file__).parents[4]
PAGE = (ROOT / "docs" / "cluster-file.md").read_text(encoding="utf-8")
SCHEMA = json.loads((ROOT / "docs" / "schema" / "cluster-file.schema.json").read_text(encoding="utf-8"))
FILES = sorted([*ROOT.glob("inventories/**/*.bedplate.yml"), *ROOT.glob("molecule/*/*.bedplate.yml")])


def test_what_is_generated_is_up_to_date():
    command = [sys.executable, str(ROOT / "tools" / "cluster_file_docs.py"), "--check"]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    assert (done.returncode, done.stdout) == (0, "")


def test_the_page_has_what_keeps_files_beside_a_cluster_file_from_being_inventories():
    config = configparser.ConfigParser(interpolation=None)
    config.read(ROOT / "ansible.cfg")
    patterns = config["inventory"]["ignore_patterns"]
    assert f"[inventory]\nignore_patterns = {patterns}\n" in PAGE
    assert "^scripts$" in patterns.split(", ")


def test_the_schema_is_one():
    jsonschema.Draft202012Validator.check_schema(SCHEMA)


@pytest.mark.parametrize("path", FILES, ids=lambda path: path.name)
def test_editors_accept_what_bedplate_accepts(path):
    assert load(path).nodes
    # Editors read YAML 1.2, in which a date without quotes is text.
    data = json.loads(json.dumps(yaml.safe_load(path.read_text()), default=str))
    jsonschema.validate(data, SCHEMA, jsonschema.Draft202012Validator)


@pytest.mark.parametrize("path", FILES, ids=lambda path: path.name)
def test_editors_find_the_schema(path):
    named = re.search(r"^# yaml-language-server: \$schema=(.*)$", path.read_text(), re.MULTILINE)
    if "examples" in path.parts:
        # An example is there to be copied, as README.md says: then the path is right.
        path = ROOT / "inventories" / "mysite" / path.name
        assert named
    if named:
        assert (path.parent / named[1]).resolve() == ROOT / "docs" / "schema" / "cluster-file.schema.json"


@pytest.mark.parametrize(
    ("old", "new"),
    [
        ("    sockets: 2", "    socket: 2"),
        ("    cores_per_socket: 4", "    cores_per_socket: 0"),
        ("        state: drain", "        state: drained"),
        ("cluster: lab\n", "cluster: My Lab\n"),
        ("      2M: 10", "      2MB: 10"),
        ("      - cores: 0-3", "      - cores: 0..3"),
        ("    max_time: 7-00:00:00", "    max_time: 7 days"),
        ("services:\n", "service:\n"),
        ("    memory_mib: 64000", "    memory_mib: 64000\n    boot: lader"),
        ("    memory_mib: 64000", "    memory_mib: 64000\n    boot: {method: cd}"),
    ],
)
def test_editors_see_mistakes(bench, old, new):
    with pytest.raises(jsonschema.ValidationError):
        jsonschema.validate(yaml.safe_load(bench.text((old, new))), SCHEMA, jsonschema.Draft202012Validator)


def blocks(kind: str) -> list[str]:
    return re.findall(rf"```{kind}\n(.*?)```", PAGE, re.DOTALL)


def test_the_example_of_the_page_is_right(bench):
    bench.path.write_text(blocks("yaml")[0])
    cluster = load(bench.path)
    assert [node.name for node in cluster.nodes if node.rack.name == "a01"] == ["gpu001", "gpu002", "gpu003", "gpu004"]
    assert cluster.node("gpu033").address == "10.20.2.1"


def test_the_mistakes_of_the_page_are_what_its_example_would_tell(bench):
    text = blocks("yaml")[0]
    for old, new in (("cores_per_socket: 56", "cores_per_sockets: 56"), ("0.14", "8.14"), ("rack:a01", "rack:a1")):
        assert old in text
        text = text.replace(old, new, 1)
    told = str(bench.error_of(text)).replace(str(bench.path), "/site/inventories/west/west.bedplate.yml")
    assert told in blocks("console")[0]


def test_the_plugin_documents_every_key_of_the_top():
    text = (ROOT / "plugins" / "inventory" / "racks.py").read_text(encoding="utf-8")
    documentation = yaml.safe_load(re.search(r'DOCUMENTATION = r"""(.*?)"""', text, re.DOTALL)[1])
    constructed = {"groups", "keyed_groups", "compose", "strict", "use_extra_vars", "leading_separator"}
    options = documentation["options"]
    assert set(options) == set(CLUSTER_FILE.fields) - constructed
    for name, option in options.items():
        assert option["description"] == CLUSTER_FILE.fields[name].description, name
        assert option.get("required", False) == CLUSTER_FILE.fields[name].required, name
