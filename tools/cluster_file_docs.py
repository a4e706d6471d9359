# SPDX-License-Identifier: GPL-3.0-or-later
"""Write the cluster file's keys into docs/: the JSON Schema for editors, and the table in docs/reference/cluster-file.md.

Both come from plugins/plugin_utils/cluster/schema/cluster_file.py; ``--check`` only says whether they are up to date.
"""

from __future__ import annotations

import argparse
import json
import sys
from pathlib import Path

ROOT = Path(__file__).parents[1]
sys.path.insert(0, str(ROOT / "collections"))

from ansible_collections.bedplate.cluster.plugins.plugin_utils.cluster.schema.cluster_file import CLUSTER_FILE  # noqa: E402
from ansible_collections.bedplate.cluster.plugins.plugin_utils.cluster.schema.fields import json_schema, rows  # noqa: E402

SCHEMA = ROOT / "docs" / "schema" / "cluster-file.schema.json"
PAGE = ROOT / "docs" / "reference" / "cluster-file.md"
# A fabric of several.
NAMED = "fabrics.<name>."
BEGIN, END = "<!-- keys: begin, written by tools/cluster_file_docs.py -->\n", "<!-- keys: end -->\n"


def schema() -> str:
    """Return the JSON Schema as text."""
    head = {"$schema": "https://json-schema.org/draft/2020-12/schema", "title": "bedplate cluster file"}
    return json.dumps({**head, **json_schema(CLUSTER_FILE)}, indent=1) + "\n"


def table() -> str:
    """Return the table of all keys."""
    lines = ["| key | type | default | meaning |\n", "|---|---|---|---|\n"]
    found = rows(CLUSTER_FILE)
    known = {row[0] for row in found}
    for key, type_, default, meaning in found:
        # The section `fabric` has them.
        if key.startswith(NAMED) and f"fabric.{key.removeprefix(NAMED)}" in known:
            continue
        lines.append(f"| `{key}` | {type_} | {default} | {meaning} |\n".replace("|  |", "| |"))
    return "".join(lines)


def page(text: str) -> str:
    """Return the page with the table of today."""
    before, _, rest = text.partition(BEGIN)
    _, _, after = rest.partition(END)
    return f"{before}{BEGIN}\n{table()}\n{END}{after}"


def main(arguments: list[str] | None = None) -> int:
    """Write both files, or check them."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0] if __doc__ else "")
    parser.add_argument("--check", action="store_true", help="write nothing; fail if a file is out of date")
    options = parser.parse_args(arguments)
    wanted = {SCHEMA: schema(), PAGE: page(PAGE.read_text(encoding="utf-8"))}
    stale = [path for path, text in wanted.items() if not path.exists() or path.read_text(encoding="utf-8") != text]
    for path in stale:
        if options.check:
            print(f"{path.relative_to(ROOT)} is out of date: run python tools/cluster_file_docs.py")
        else:
            path.write_text(wanted[path], encoding="utf-8")
    return 1 if stale and options.check else 0


if __name__ == "__main__":
    sys.exit(main())
