"""What verify compares of a node, and the kinds of drift of node.yml on it."""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping
from fnmatch import fnmatchcase
from pathlib import Path
from typing import Any

import yaml

from ansible_collections.bedplate.cluster.plugins.module_utils.primitives.files.manifest import digest
from ansible_collections.bedplate.cluster.plugins.plugin_utils.cluster import Cluster, load
from ansible_collections.bedplate.cluster.plugins.plugin_utils.common import shipped
from ansible_collections.bedplate.cluster.plugins.plugin_utils.hosts.machine_facts import hosts_file, os_expected
from ansible_collections.bedplate.cluster.plugins.plugin_utils.verify.expected import rows as shared_parts
from tests.kit.decided import decision, shown

HERE = Path(__file__).parent
KINDS: list[dict[str, Any]] = yaml.safe_load((HERE / "node.yml").read_text())
FIELDS = ("kind", "where", "overridden_by")
LIBRARY = "/root/drift"
_UNPACK = """import json, pathlib, sys
for path, text in json.load(sys.stdin).items():
    path = pathlib.Path(path); path.parent.mkdir(parents=True, exist_ok=True); path.write_text(text)"""

Rows = set[tuple[str, ...]]


def cluster(path: Path) -> Cluster:
    """Return the cluster of a cluster file."""
    return load(str(path))


def parts(cluster: Cluster, host: str, variables: Mapping[str, Any]) -> dict[str, Any]:
    """Return the expectations of the roles of a node, as bedplate.cluster.node_state makes them; its own variables beside the defaults."""
    found = {role: decision(role, cluster.path, host, **_own(role, variables)) for role in ("node_tuning", "rdma")}
    wanted = {role: shown(role, one) for role, one in found.items() if one.parts}
    hosts = {"path": "/etc/hosts", "content": hosts_file(cluster)}
    packages = variables.get("node_os_packages", [])
    deployments = list(wanted.items())
    deployments.append(("node_os", {"manifest": "node_os", "files": [hosts], "packages": packages}))
    return {
        **{role: told["expected"] for role, told in wanted.items()},
        "node_os": os_expected(cluster, host, [], True),
        **shared_parts(deployments, _row),
    }


def _own(role: str, variables: Mapping[str, Any]) -> dict[str, Any]:
    return {name.removeprefix(f"{role}_"): value for name, value in variables.items() if name.startswith(f"{role}_")}


def _row(_role: str, entry: Mapping[str, Any]) -> dict[str, Any]:
    if entry.get("state") == "directory":
        return {key: entry[key] for key in ("path", "state", "mode", "owner", "group")}
    content = str(entry["content"]).encode()
    return {"path": entry["path"], "state": "file", "mode": entry.get("mode", "0644"), "sha256": digest(content)}


def compared(run: Callable[[str, str], str], told: Mapping[str, Any], rows: list[dict[str, Any]]) -> dict[str, Any]:
    """Make and take back each drift on a machine; `run` runs a command there with an input and returns its output."""
    texts = {
        path.replace(shipped.library("verify.readers"), LIBRARY): text for path, text in shipped.files("verify.readers")
    }
    texts[f"{LIBRARY}/compare.py"] = (HERE / "compare.py").read_text()
    run(f'python3 -c "{_UNPACK}"', json.dumps(texts))
    output = run(
        f"PYTHONPATH={LIBRARY} python3 {LIBRARY}/compare.py; rm -r {LIBRARY}", json.dumps({"parts": told, "rows": rows})
    )
    found: dict[str, Any] = json.loads(output)
    return found


def fields(findings: list[dict[str, Any]]) -> Rows:
    """Return kind, place and who overrides of findings."""
    return {tuple(one[field] for field in FIELDS) for one in findings}


def judge(row: Mapping[str, Any], before: Rows, found: Rows) -> tuple[Rows, Rows]:
    """Return the findings that are the drift of a row, and all other new ones that its `beside` does not allow."""
    new = found - before
    named = {one for one in new if one[:2] == (row["kind"], row["where"]) and fnmatchcase(one[2], row["overridden_by"])}
    allowed = row.get("beside", [])
    others = {
        one for one in new - named if one[0] != "unit-reload" and not any(fnmatchcase(one[1], each) for each in allowed)
    }
    return named, others
