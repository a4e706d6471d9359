# SPDX-License-Identifier: GPL-3.0-or-later
"""The table of the GPU stack: refused where it is malformed, and the only place with driver versions."""

from __future__ import annotations

import ast
import json
import re
from copy import deepcopy
from pathlib import Path
from typing import Any

import pytest

from ansible_collections.bedplate.cluster.plugins.module_utils.gpu import table, versions
from ansible_collections.bedplate.cluster.plugins.module_utils.gpu.repositories import located
from ansible_collections.bedplate.cluster.plugins.module_utils.gpu.stack import StackError, resolve
from tests.unit.gpu.stack_cases import ask

ROOT = Path(__file__).parents[3]
DATA = ROOT / "plugins/module_utils/gpu/stack.json"
TABLE = table.default()


def rows() -> dict[str, Any]:
    return json.loads(DATA.read_text(encoding="utf-8"))  # type: ignore[no-any-return]


@pytest.mark.parametrize(
    ("path", "value", "named"),
    [
        (("drivers", 0, "packages"), "535.309.01-1", "drivers, row 1: packages"),
        (("drivers", 1, "version"), "535", "drivers, row 2: version"),
        (("drivers", 2, "own"), {}, "drivers, row 3: own has no version of nvidia-kernel-common"),
        (("drivers", 3, "systems"), ["debian-11"], "drivers, row 4: systems"),
        (("drivers", 3, "verified"), None, "drivers, row 4: verified"),
        (("drivers", 3, "from"), "", "drivers, row 4: from"),
        (("drivers", 4, "lacks"), {"fm": "x"}, "drivers, row 5: lacks"),
        (("drivers", 5, "source"), "elsewhere", "drivers, row 6: no row of names is for elsewhere"),
        (("names", 0, "kernel", "closed"), ["x"], "names, row 1, kernel: unknown closed"),
        (("names", 0, "dkms"), {"open": "x"}, "its names have no dkms for flavour proprietary"),
        (("names", 0, "driver"), [], "names, row 1: driver"),
        (("models", "h100", "generation"), "hoper", "models, h100: generation"),
        (("models", "h100", "lowest"), "525", "models, h100: lowest"),
        (("models", "h100", "board"), "sxm", "models, h100: board"),
        (("models", "gb200", "architecture"), "aarch64", "models, gb200: architecture"),
        (("architectures", "arm64", "deb"), None, "architectures, arm64: deb"),
        (("architectures", "riscv"), {"from": "x", "verified": True}, "architectures, riscv: unknown architecture"),
        (("names", 0, "absent"), {"arm": ["x"]}, "names, row 1, absent: unknown arm"),
        (("repositories", 4, "least"), {"arm64": {"debian-1": {}}}, "repositories, row 5, least: unknown debian-1"),
        (("repositories", 4, "least"), {"arm64": {"debian-12": {"cuda": "13"}}}, "least, arm64, debian-12: cuda"),
        (("systems", "debian-13", "series"), 6.12, "systems, debian-13: series"),
        (("platforms", "hgx", "parts"), ["fm"], "platforms, hgx: parts"),
        (("generations", "ada", "flavours"), [], "generations, ada: flavours"),
        (("systems", "rocky-9", "family"), "zypper", "systems, rocky-9: family"),
        (("cuda", "least", "12"), "525", "cuda, least: 12"),
        (("dcgm", "packages"), None, "dcgm: packages"),
    ],
)
def test_refuses_a_malformed_table_and_names_the_row(path: tuple[Any, ...], value: object, named: str) -> None:
    data = deepcopy(rows())
    place: Any = data
    for key in path[:-1]:
        place = place[key]
    place[path[-1]] = value
    with pytest.raises(table.TableError) as caught:
        table.build(data)
    assert named in str(caught.value)


def test_refuses_what_is_not_json(tmp_path: Path) -> None:
    (tmp_path / "stack.json").write_text("{", encoding="utf-8")
    with pytest.raises(table.TableError, match="not JSON"):
        table.read(tmp_path / "stack.json")


def test_a_table_with_nothing_that_works_says_so() -> None:
    data = rows()
    data["models"] = {"v100": {**data["models"]["v100"], "lowest": 700, "highest": 0}}
    with pytest.raises(StackError, match="Nothing in the table works"):
        resolve(ask("debian-13 debian 550", "v100"), table.build(data))


def texts(path: Path) -> list[str]:
    """Return what a file does, without its documentation, which has versions as examples."""
    text = path.read_text(encoding="utf-8")
    if path.suffix != ".py":
        return [] if path.parent.name == "filter" else [text]
    tree = ast.parse(text)
    documented = {
        id(node.value)
        for node in ast.walk(tree)
        if isinstance(node, ast.Expr)
        or (isinstance(node, ast.Assign) and ast.unparse(node.targets[0]) in ("DOCUMENTATION", "EXAMPLES", "RETURN"))
    }
    return [str(node.value) for node in ast.walk(tree) if isinstance(node, ast.Constant) and id(node) not in documented]


def test_no_code_holds_a_driver_version() -> None:
    """A version in code, a task or a default would be one that the table does not pin."""
    places = [*(ROOT / "plugins").rglob("*"), *(ROOT / "roles").rglob("*"), *(ROOT / "playbooks").rglob("*")]
    code = [one for one in places if one.suffix in (".py", ".yml", ".j2")]
    driver = re.compile(r"(?<![0-9.])[3-9][0-9]{2}\.[0-9]{2,3}\.[0-9]{2}(?![0-9.])")
    assert all(driver.fullmatch(one.version) for one in TABLE.drivers)
    found = [f"{one.relative_to(ROOT)}: {hit}" for one in code for text in texts(one) for hit in driver.findall(text)]
    assert len(code) > 100
    assert found == []


@pytest.mark.parametrize(
    ("earlier", "later"),
    [("580.65.06", "580.126.09"), ("570.26", "570.124.06"), ("590.48.01", "595.71.05")],
)
def test_versions_sort_by_number(earlier: str, later: str) -> None:
    assert versions.numbers(earlier) < versions.numbers(later)


def test_branch_refuses_what_is_none() -> None:
    assert versions.branch("580") == versions.branch("580.65.06") == 580
    with pytest.raises(ValueError, match="neither a driver branch"):
        versions.branch("latest")


@pytest.mark.parametrize(
    ("release", "expected"),
    [
        ("6.1.0-56-amd64", (6, 1, 0, 56)),
        ("6.12.117+deb13-amd64", (6, 12, 117)),
        ("5.14.0-503.11.1.el9_5.x86_64", (5, 14, 0, 503, 11, 1)),
        ("6.8.0-90-generic", (6, 8, 0, 90)),
        ("6.12.117+deb13-arm64-16k", (6, 12, 117)),
        ("5.14.0-503.el9.aarch64", (5, 14, 0, 503)),
    ],
)
def test_kernel_releases_compare_without_flavour(release: str, expected: tuple[int, ...]) -> None:
    assert versions.kernel(release) == expected


@pytest.mark.parametrize(
    ("name", "system", "architecture", "url"),
    [
        ("nvidia", "ubuntu-24.04", "x86_64", "compute/cuda/repos/ubuntu2404/x86_64"),
        ("nvidia", "ubuntu-24.04", "arm64", "compute/cuda/repos/ubuntu2404/sbsa"),
        ("nvidia", "rocky-9", "arm64", "compute/cuda/repos/rhel9/sbsa"),
        ("container-toolkit", "debian-13", "x86_64", "stable/deb/amd64"),
        ("container-toolkit", "debian-13", "arm64", "stable/deb/arm64"),
        ("container-toolkit", "rocky-10", "arm64", "stable/rpm/aarch64"),
        ("ubuntu", "ubuntu-22.04", "x86_64", "archive.ubuntu.com/ubuntu"),
        ("ubuntu-security", "ubuntu-22.04", "arm64", "ports.ubuntu.com/ubuntu-ports"),
        ("debian", "debian-13", "arm64", "deb.debian.org/debian"),
    ],
)
def test_a_repository_is_where_its_owner_has_the_architecture(
    name: str, system: str, architecture: str, url: str
) -> None:
    row = next(one for one in TABLE.repositories if one.name == name)
    assert located(row, system, architecture=architecture).url.endswith(url)
    # A copy is where the site says that it is.
    assert located(row, system, "http://m/x", architecture=architecture).url == "http://m/x"


def test_a_kernel_of_one_release_has_one_version_on_every_architecture() -> None:
    kernels = TABLE.systems["debian-13"].kernels
    assert kernels["6.12.117+deb13-amd64"] == kernels["6.12.117+deb13-arm64"] == "6.12.117-1"
    assert {versions.architecture(release) for release in kernels} == set(TABLE.architectures)
