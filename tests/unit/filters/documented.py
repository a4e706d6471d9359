"""What the tests of filters share: a filter called as a template calls it, and its documentation's examples."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

import pytest
import yaml
from ansible.errors import AnsibleError
from ansible.parsing.dataloader import DataLoader
from ansible.template import Templar, trust_as_template

ROOT = Path(__file__).parents[3]
FILTERS = ROOT / "plugins/filter"


def template(expression: str, path: object, **variables: Any) -> Any:
    """Return what an expression is, with a cluster file."""
    templar = Templar(DataLoader(), variables={"bedplate_cluster_file": path, **variables})
    return templar.template(trust_as_template("{{ " + expression + " }}"))


def refusal(expression: str, path: object, **variables: Any) -> str:
    """Return what a filter says when it refuses, without what Ansible says before it and without the repository's place."""
    with pytest.raises(AnsibleError) as caught:
        template(expression, path, **variables)
    return str(caught.value).partition(" failed: ")[2].replace(f"{ROOT}/", "")


def names(module: str) -> list[str]:
    """Return the filters that a file of filters has."""
    return sorted(re.findall(r'^ {12}"(\w+)": ', (FILTERS / f"{module}.py").read_text(), re.MULTILINE))


def check_examples(name: str, path: object) -> None:
    """Compare each example of a filter with what it shows behind `# =>`."""
    text = yaml.safe_load((FILTERS / f"{name}.yml").read_text())["EXAMPLES"]
    shown = re.findall(r"((?:^ *# => .*\n)+)", text, re.MULTILINE)
    for task, lines in zip(yaml.safe_load(text), shown, strict=True):
        wanted = re.sub(r"^ *# => ", "", lines, flags=re.MULTILINE)
        trusted = {
            key: trust_as_template(value) if isinstance(value, str) else value
            for key, value in task.get("vars", {}).items()
        }
        message = trust_as_template(task["ansible.builtin.debug"]["msg"])
        result = Templar(DataLoader(), variables={"bedplate_cluster_file": path, **trusted}).template(message)
        assert result == yaml.safe_load(wanted) or (isinstance(result, str) and result.strip() == wanted.strip())
