# SPDX-License-Identifier: GPL-3.0-or-later
"""Write docs/reference and the tables in READMEs of roles from argument specs, parts, playbooks and documentation of plugins.

Run `python -m tools.reference`; `--check` fails if a page is out of date. tools/cluster_file_docs.py writes the keys of the cluster file.
"""

from __future__ import annotations

import argparse
import ast
import json
import re
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import yaml

ROOT = Path(__file__).parents[1]
FOLDER = ROOT / "docs" / "reference"
NOTE = "<!-- written by tools/reference.py from {} -->\n"
BEGIN, END = "<!-- facts: begin, written by tools/reference.py -->\n", "<!-- facts: end -->\n"

_MARKUP = re.compile(r"\b[COVM]\(([^)]*)\)")


def loaded(path: Path) -> Any:
    """Return the document of a YAML file."""
    return yaml.safe_load(path.read_text(encoding="utf-8"))


def cell(value: Any) -> str:
    """Return a value of documentation as a cell of a table, with code for Ansible's markup.

    >>> cell("Of C(podman) or V(x|y).")
    'Of `podman` or `x\\\\|y`.'
    """
    text = " ".join(value) if isinstance(value, list) else str(value)
    return " ".join(_MARKUP.sub(r"`\1`", text).replace("|", "\\|").split())


def shown(value: Any) -> str:
    """Return a default as it is written in YAML, in one line."""
    text = yaml.safe_dump(value, default_flow_style=True, width=10**6, sort_keys=False).replace("...", "").strip()
    return f"`{cell(text)}`"


def in_words(value: Any) -> str:
    """Return a default of a playbook: a sentence as it is, a value as code."""
    return value if isinstance(value, str) and " " in value else shown(value)


def roles() -> list[Path]:
    """Return the folders of the roles."""
    return sorted(path for path in (ROOT / "roles").iterdir() if (path / "meta/argument_specs.yml").exists())


def options_of(role: Path) -> dict[str, dict[str, Any]]:
    """Return the variables of a role, each once, in the order of its defaults."""
    specs = loaded(role / "meta/argument_specs.yml")["argument_specs"]
    found = {name: option for entry in specs.values() for name, option in (entry.get("options") or {}).items()}
    order = list(loaded(role / "defaults/main.yml") or {})
    return dict(sorted(found.items(), key=lambda item: order.index(item[0]) if item[0] in order else len(order)))


def entries_of(role: Path) -> dict[str, str]:
    """Return the entry points of a role with their descriptions."""
    specs = loaded(role / "meta/argument_specs.yml")["argument_specs"]
    return {name: cell(entry.get("short_description", "")) for name, entry in specs.items()}


def roles_page() -> str:
    """Return the page of all role variables."""
    lines = [
        "# Role variables\n",
        NOTE.format("roles/*/meta/argument_specs.yml"),
        "\nSet them for all hosts, a group or one host.\n",
    ]
    for role in roles():
        lines.append(f"\n## {role.name}\n\n| entry point | what it does |\n| --- | --- |\n")
        lines += [f"| `{name}` | {text} |\n" for name, text in entries_of(role).items()]
        lines.append("\n| variable | type | default | meaning |\n| --- | --- | --- | --- |\n")
        for name, option in options_of(role).items():
            kind = option.get("type", "str") + (f" of {option['elements']}" if "elements" in option else "")
            choices = (
                f" One of {', '.join(f'`{one}`' for one in option['choices'] if one != '')}."
                if "choices" in option
                else ""
            )
            default = shown(option["default"]) if "default" in option else ""
            lines.append(f"| `{name}` | {kind} | {default} | {cell(option['description'])}{choices} |\n")
    return "".join(lines)


def entries_of_part(document: dict[str, Any]) -> Iterator[tuple[str, str]]:
    """Yield path and source of each file that a part writes."""
    for entry in [*(document.get("sources") or []), *(document.get("files") or [])]:
        if isinstance(entry, dict) and entry.get("state") != "absent":
            sources = ("template", "src", "secret", "json", "content", "target")
            kind = next((key for key in sources if key in entry), entry.get("state", "file"))
            name = f" `{entry[kind]}`" if kind in {"template", "src", "secret", "target"} else ""
            yield str(entry["path"]), f"{'link to' if kind == 'target' else kind}{name}"


def files_of(role: Path) -> list[tuple[str, str, str]]:
    """Return path, part and source of each file that a role writes, by path."""
    return sorted(
        {
            (path, part.name, source)
            for part in sorted((role / "parts").glob("*.yml"))
            for path, source in entries_of_part(loaded(part))
        }
    )


def files_page() -> str:
    """Return the page of all files that roles write on nodes."""
    lines = ["# Files on nodes\n", NOTE.format("roles/*/parts/*.yml"), "\n`{{ }}` is a value that the role decides. "]
    lines.append("A host has a file only if it needs it.\n")
    for role in roles():
        lines.append(f"\n## {role.name}\n\n| file | part | source |\n| --- | --- | --- |\n")
        lines += [
            f"| `{path}` | [{part}](../../roles/{role.name}/parts/{part}) | {cell(source)} |\n"
            for path, part, source in files_of(role)
        ]
    return "".join(lines)


def variables_table(variables: dict[str, dict[str, Any]]) -> str:
    """Return the table of playbook variables."""
    rows = (f"| `{name}` | {in_words(row['default'])} | {cell(row['meaning'])} |\n" for name, row in variables.items())
    return "".join(["\n| variable | default | meaning |\n| --- | --- | --- |\n", *rows])


def playbooks_page() -> str:
    """Return the page of all playbooks."""
    data = loaded(ROOT / "tools/playbooks.yml")
    lines = ["# Playbooks\n", NOTE.format("playbooks/*.yml and tools/playbooks.yml")]
    lines.append("\nFrom an installed collection a playbook is `bedplate.cluster.NAME`.\n\nEvery playbook takes:\n")
    lines.append(variables_table(data["common"]))
    for name, row in data["playbooks"].items():
        plays = loaded(ROOT / "playbooks" / f"{name}.yml")
        tags = sorted({tag for play in plays for tag in play.get("tags") or []} - {"always"})
        lines.append(
            f"\n## {name}\n\n{row['summary']}"
            + (f" Tags: {', '.join(f'`{tag}`' for tag in tags)}." if tags else "")
            + "\n\n"
        )
        for number, play in enumerate(plays, start=1):
            target = play.get("import_playbook") or play.get("ansible.builtin.import_playbook")
            hosts = str(play.get("hosts", ""))
            where = (
                f"`playbooks/{target}`" if target else "hosts that the run decides" if "{{" in hosts else f"`{hosts}`"
            )
            lines.append(f"{number}. {play['name']}: {where}\n")
        if "variables" in row:
            lines.append(variables_table(row["variables"]))
    return "".join(lines)


def documentation(path: Path) -> dict[str, Any]:
    """Return the DOCUMENTATION of a plugin, from its Python file or the YAML file of a filter."""
    if path.suffix == ".yml":
        found: dict[str, Any] = loaded(path)["DOCUMENTATION"]
        return found
    found = {}
    for node in ast.parse(path.read_text(encoding="utf-8")).body:
        if (
            isinstance(node, ast.Assign)
            and isinstance(node.value, ast.Constant)
            and getattr(node.targets[0], "id", "") == "DOCUMENTATION"
        ):
            found = yaml.safe_load(str(node.value.value))
            break
    return found


def plugins_page() -> str:
    """Return the page of modules, filters, lookups and inventory plugins."""
    lines = [
        "# Modules and plugins\n",
        NOTE.format("plugins/"),
        "\n`ansible-doc -t TYPE bedplate.cluster.NAME` shows arguments and examples.\n",
    ]
    for kind, title, folder in (
        ("module", "Modules", "modules"),
        ("filter", "Filters", "filter"),
        ("lookup", "Lookups", "lookup"),
        ("inventory", "Inventory plugins", "inventory"),
    ):
        lines.append(f"\n## {title}\n\n`ansible-doc -t {kind}`\n\n| name | what it does |\n| --- | --- |\n")
        paths = [*(ROOT / "plugins" / folder).glob("*.py"), *(ROOT / "plugins" / folder).glob("*.yml")]
        found = {path.stem: documentation(path) for path in paths}
        lines += [f"| `{name}` | {cell(text['short_description'])} |\n" for name, text in sorted(found.items()) if text]
    return "".join(lines)


def health_page() -> str:
    """Return the page of the checks of a node's health, from the tables of module_utils/health/tables."""
    folder = ROOT / "plugins/module_utils/health/tables"
    lines = [
        "# Checks of a node's health\n\n",
        NOTE.format("the tables in plugins/module_utils/health/tables"),
        "\nNo limit was checked on hardware. `verified`: the source in the table has the number.\n\n## Readings\n\n",
        "`equals`: another value is bad; `at_least`: less is bad; all others: the limit and more. Samples: so many in a row.\n\n",
        "| check | what | kind | warn | critical | samples | class | clears by | verified |\n",
        "| --- | --- | --- | --- | --- | --- | --- | --- | --- |\n",
    ]
    for name, row in json.loads((folder / "thresholds.json").read_text(encoding="utf-8"))["rows"].items():
        stated = {key: row[key] for key in ("warn", "critical") if row.get(key) is not None}
        texts = [
            f"{stated.get(key, '')} {row.get('unit', '')}".strip() if key in stated else ""
            for key in ("warn", "critical")
        ]
        classes = ", ".join(filter(None, (row.get(f"class_{key}") for key in stated)))
        samples, clears = row.get("debounce", 1), row.get("clears_by", "time")
        words = [f"`{name}`", row["about"], row["kind"], *texts, samples, classes, clears]
        lines.append(f"| {' | '.join(map(cell, words))} | {_yes(row['verified'])} |\n")
    for title, file in (("Xid", "xid.json"), ("SXid", "sxid.json")):
        lines.append(
            f"\n## {title}\n\n| code | name | class | what to do | verified |\n| --- | --- | --- | --- | --- |\n"
        )
        for row in json.loads((folder / file).read_text(encoding="utf-8"))["rows"]:
            classes = row["class"] if "class" in row else f"fatal: {row['fatal']}, else {row['nonfatal']}"
            words = [row["code"], row["name"], classes, row.get("action") or row["fatal_action"]]
            lines.append(f"| {' | '.join(map(cell, words))} | {_yes(row['verified'])} |\n")
    return "".join(lines)


def dialects_page() -> str:
    """Return the page of how BMCs differ, from dialects.json."""
    path = "plugins/plugin_utils/redfish/resources/dialects.json"
    table = json.loads((ROOT / path).read_text(encoding="utf-8"))
    rows, always = table["rows"], table["always"]
    commits = ", ".join(f"{name} {commit[:8]}" for name, commit in table["commits"].items())
    lines = [
        "# Dialects of BMCs\n\n",
        NOTE.format(path),
        "\nHow BMCs differ from the Redfish standard. A row applies to each BMC with such resources.\n",
        "Later rows replace changes of earlier ones. No real BMC was read by bedplate.\n",
        f"Commits of the sources: {commits}.\n\n",
    ]
    for known, meaning in (
        ("capture", "resources of a real or simulated machine, published by others"),
        ("source", "code, release notes or issues of a project that commands such BMCs"),
        ("manual", "documents of the vendor alone"),
    ):
        names = [f"`{row['id']}`" for row in [*rows, *always] if row["known_from"] == known]
        if names:
            lines.append(f"* Known from `{known}` ({meaning}), rows: {len(names)}. {', '.join(names)}\n")
    for row in rows:
        conditions = "; ".join(_condition(one) for one in row["when"])
        changes = ", ".join(f"`{name}: {json.dumps(value)}`" for name, value in row["changes"].items())
        lines.append(
            f"\n## {row['id']}\n\n{row['about']} {row['effect']}\n\n* Recognised by: {conditions}\n* Changes: {changes}\n"
            f"* Seen: {row['seen']}\n* Known from {row['known_from']}: {row['source']}\n"
        )
    lines.append(
        "\n# Expected of every BMC\n\nThese differences are not recognised: bedplate is ready for them everywhere.\n"
    )
    lines += [
        f"\n## {row['id']}\n\n{row['about']} {row['effect']}\n\n* Seen: {row['seen']}\n"
        f"* Known from {row['known_from']}: {row['source']}\n"
        for row in always
    ]
    return "".join(lines)


def _condition(row: dict[str, Any]) -> str:
    if "any" in row:
        return " or ".join(_condition(one) for one in row["any"])
    subject = f"{'each' if row.get('each') else 'one'} of `{row['in']}`" if row["in"] in _MANY else f"`{row['in']}`"
    value = f" `{row['value']}`" if "value" in row else ""
    return f"{subject}: `{row['at']}` {_TESTS[row['is']]}{value}"


_MANY = ("systems", "managers", "media")
_TESTS = {
    "present": "is present",
    "absent": "is absent",
    "holds": "has",
    "lacks": "does not have",
    "like": "is like",
    "exact": "is, with its letter case, like",
    "below": "is a version before",
}


def _yes(value: bool) -> str:
    return "yes" if value else "no"


def wrapped(items: list[str], width: int = 100) -> str:
    """Return items with commas in lines of at most this width; an item is never broken.

    >>> wrapped(["`a: 1`", "`b: 2`"], 8)
    '`a: 1`,\\n`b: 2`\\n'
    """
    lines = [""]
    for item in [*(f"{item}," for item in items[:-1]), *items[-1:]]:
        lines[-1:] = [f"{lines[-1]} {item}".strip()] if len(lines[-1]) + len(item) < width else [lines[-1], item]
    return "\n".join(line for line in lines if line) + "\n"


def readme(role: Path) -> str:
    """Return the README of a role with its files and variables of today."""
    text = (role / "README.md").read_text(encoding="utf-8")
    before, begin, rest = text.partition(BEGIN)
    _, end, after = rest.partition(END)
    if not begin or not end:
        raise SystemExit(f"{role.name}/README.md: add the lines {BEGIN.strip()} and {END.strip()}")
    lines = ["## Files on the node\n\n"]
    parts: dict[str, list[str]] = {}
    for path, part, _ in files_of(role):
        parts.setdefault(part, []).append(f"`{path}`")
    lines += [f"* [{part}](parts/{part}): {', '.join(dict.fromkeys(paths))}\n" for part, paths in sorted(parts.items())]
    variables = [
        f"`{name}: {shown(option['default']).strip('`')}`" if "default" in option else f"`{name}`"
        for name, option in options_of(role).items()
    ]
    lines.append(
        f"\n## Variables\n\nWith their defaults; [the reference](../../docs/reference/roles.md#{role.name}) explains them.\n\n"
    )
    lines.append(wrapped(variables))
    lines.append("\n## Entry points\n\n| `tasks_from` | what it does |\n| --- | --- |\n")
    lines += [f"| `{name}` | {text} |\n" for name, text in entries_of(role).items()]
    return f"{before}{BEGIN}{''.join(lines)}{END}{after}"


def pages() -> dict[Path, str]:
    """Return all generated pages."""
    made = {"roles": roles_page, "files": files_page, "playbooks": playbooks_page, "plugins": plugins_page}
    made |= {"health": health_page, "dialects": dialects_page}
    return {FOLDER / f"{name}.md": page() for name, page in made.items()} | {
        role / "README.md": readme(role) for role in roles()
    }


def main(arguments: list[str] | None = None) -> int:
    """Write the pages, or check them."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--check", action="store_true", help="write no page; fail if one is out of date")
    options = parser.parse_args(arguments)
    stale = {
        path: text for path, text in pages().items() if not path.exists() or path.read_text(encoding="utf-8") != text
    }
    for path, text in stale.items():
        if options.check:
            print(f"{path.relative_to(ROOT)} is out of date: run python -m tools.reference")
        else:
            path.write_text(text, encoding="utf-8")
    return 1 if stale and options.check else 0


if __name__ == "__main__":
    sys.exit(main())
