# SPDX-License-Identifier: GPL-3.0-or-later
"""Compare the settings of MariaDB that slurmdbd depends on."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

from ...common.command import Runner, run_quick
from ...common.finding import Finding

OWN = "/etc/mysql/mariadb.conf.d/60-bedplate-slurm.cnf"


def findings(root: str, expected: Mapping[str, Any], run: Runner = run_quick) -> Iterator[Finding]:
    """Yield the variables of the running server that differ from `expected`, name -> value. Skip unknown variables."""
    variables: Mapping[str, str] = expected["variables"]
    names = ", ".join(f"'{name}'" for name in variables)
    query = f"SHOW GLOBAL VARIABLES WHERE Variable_name IN ({names})"
    answer = run(["mariadb", "--batch", "--skip-column-names", "--execute", query])
    if answer.code != 0:
        remedy = "`systemctl status mariadb` and `journalctl -u mariadb`"
        yield Finding("mariadb-silent", "mariadb", "an answer", answer.error_line, remedy)
        return
    running = dict(line.split("\t", 1) for line in answer.stdout.splitlines() if "\t" in line)
    for name, value in variables.items():
        if name in running and running[name] != value:
            overrides = list(_set_by(Path(root), name))
            last = overrides[-1] if overrides and not overrides[-1].startswith(OWN) else ""
            remedy = "remove that line and run playbooks/scheduler.yml" if last else "run playbooks/scheduler.yml"
            yield Finding("mariadb-variable", f"{name} of MariaDB", value, running[name], remedy, overridden_by=last)


def _set_by(root: Path, name: str) -> Iterator[str]:
    """Yield file:line of each line that sets a variable, in the order in which MariaDB reads Debian's files: the last one counts."""
    setting = re.compile(rf"\s*(loose[_-])?{name.replace('_', '[_-]')}\s*(=|$)")
    files = [root / "etc/mysql/my.cnf"]
    for folder in ("conf.d", "mariadb.conf.d"):
        files += sorted((root / "etc/mysql" / folder).glob("*.cnf"))
    for path in files:
        lines = path.read_text(errors="replace").splitlines() if path.is_file() else []
        for number, line in enumerate(lines, 1):
            if setting.match(line):
                yield f"/{path.relative_to(root)}:{number}"
