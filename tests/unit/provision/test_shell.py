"""The installer's shell: no finding of shellcheck, and no program outside of tools.sh."""

from __future__ import annotations

import re
import subprocess
from pathlib import Path

import pytest

from tests.kit.provision.machine import LIB, programs

INSTALLER = LIB.parent
SCRIPTS = [
    *sorted(LIB.glob("*.sh")),
    INSTALLER / "finish.sh",
    INSTALLER / "hooks/bedplate",
    INSTALLER / "scripts/bedplate",
]


@pytest.mark.tools("shellcheck")
@pytest.mark.parametrize("script", SCRIPTS, ids=lambda path: path.name)
def test_shellcheck(script: Path) -> None:
    done = subprocess.run(["shellcheck", "--shell=dash", str(script)], capture_output=True, text=True)
    assert done.stdout == ""


@pytest.mark.parametrize(
    "script", [path for path in SCRIPTS[:-3] if path.name != "tools.sh"], ids=lambda path: path.name
)
def test_programs_are_called_in_tools_alone(script: Path) -> None:
    names = "|".join(programs())
    for number, line in enumerate(script.read_text().splitlines(), 1):
        code = re.sub(r'"[^"]*"', '""', line.partition("#")[0] if line.lstrip().startswith("#") else line)
        assert not re.search(rf"(?:^|[;&|(]|\bthen|\bdo|\bif|!)\s*(?:{names})\b(?!_)", code), (
            f"{script.name}:{number}: {line}"
        )
