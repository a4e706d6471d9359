# SPDX-License-Identifier: GPL-3.0-or-later
"""The table of the GPU stack is right, and the only place with driver versions."""

from __future__ import annotations

import ast
import json
import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import jsonschema
import pytest

from ansible_collections.bedplate.cluster.plugins.plugin_utils.gpu_stack import (
    driver_versions,
    stack_table,
)
from ansible_collections.bedplate.cluster.plugins.plugin_utils.gpu_stack.apt_repositories import located
from ansible_collections.bedplate.cluster.plugins.plugin_utils.gpu_stack.resolve import StackError, resolve
from ansible_collections.bedplate.cluster.plugins.plugin_utils.gpu_stack.stack_model import (
    ARCHITECTURES,
    BOARDS,
    FABRIC,
    FAMILIES,
    FLAVOURS,
    StackTable,
)
from tests.unit.gpu_stack.stack_cases import ask

ROOT = Path(__file__).parents[3]
DATA = ROOT / "plugins/plugin_utils/gpu_stack/stack.json"
SCHEMA = json.loads(DATA.with_name("stack.schema.json").read_text(encoding="utf-8"))
VALIDATOR = jsonschema.Draft202012Validator(SCHEMA)
TABLE = stack_table.default()


def rows() -> dict[str, Any]:
    return json.loads(DATA.read_text(encoding="utf-8"))  # type: ignore[no-any-return]


def mistakes(data: dict[str, Any]) -> list[str]:
    """Return what the schema finds in a table, or else what one row says of another that is not there."""
    found = [f"{'/'.join(map(str, error.absolute_path))}: {error.message}" for error in VALIDATOR.iter_errors(data)]
    return found or list(unknown(data)) or list(incomplete(stack_table.build(data)))


def unknown(data: dict[str, Any]) -> Iterator[str]:
    """Find names of generations and systems that have no row."""
    for name, row in data["models"].items():
        if row["generation"] not in data["generations"]:
            yield f"models/{name}/generation: {row['generation']}"
    lists = {key: data[key] for key in ("repositories", "names", "drivers", "breaks")}
    lists["cuda/offers"] = data["cuda"]["offers"]
    places = {f"{key}/{number}": row for key, found in lists.items() for number, row in enumerate(found)}
    for where, row in {**places, **{key: data[key] for key in ("dcgm", "toolkit", "nccl")}}.items():
        yield from (f"{where}/systems: {name}" for name in row["systems"] if name not in data["systems"])
    for number, row in enumerate(data["repositories"]):
        least = {name for systems in row.get("least", {}).values() for name in systems}
        yield from (f"repositories/{number}/least: {name}" for name in sorted(least - set(data["systems"])))


def incomplete(table: StackTable) -> Iterator[str]:
    """Find drivers of which the table does not say how their packages, or files, are called."""
    for number, driver in enumerate(table.drivers):
        where = f"drivers/{number}"
        # Module, user space and fabric are one version: a package version of another one would break that for all.
        if driver.packages and not driver.packages.startswith(f"{driver.version}-"):
            yield f"{where}/packages: not of {driver.version}"
        for system in driver.systems:
            names = table.names_of(system, driver.source, driver.branch)
            if names is None:
                yield f"{where}: no row of names is for {driver.source} on {system}, {driver.branch}"
                continue
            for key in ("kernel", "sources", "module_file", "options_file", "options_module"):
                lacking = set(driver.flavours) - set(getattr(names, key))
                yield from (f"{where}: its names have no {key} for flavour {flavour}" for flavour in sorted(lacking))
            yield from (f"{where}/own: no version of {name}" for name in names.support if name not in driver.own)


def test_the_table_is_right() -> None:
    jsonschema.Draft202012Validator.check_schema(SCHEMA)
    assert mistakes(rows()) == []


def test_the_schema_names_what_the_code_names() -> None:
    named = {name: tuple(one["enum"]) for name, one in SCHEMA["$defs"].items() if "enum" in one}
    assert named == {
        "architecture": ARCHITECTURES,
        "family": FAMILIES,
        "flavour": FLAVOURS,
        "board": BOARDS,
        "part": FABRIC,
    }
    for text, right in (("535", False), ("535.104", True), ("535.104.05", True), ("535.104.05-1", False)):
        pattern = SCHEMA["properties"]["drivers"]["items"]["properties"]["version"]["pattern"]
        assert bool(re.search(pattern, text)) is driver_versions.is_exact(text) is right


@pytest.mark.parametrize(
    ("path", "value", "named"),
    [
        (("drivers", 0, "packages"), "535.309.01-1", "drivers/0/packages"),
        (("drivers", 1, "version"), "535", "drivers/1/version"),
        (("drivers", 2, "own"), {}, "drivers/2/own: no version of nvidia-kernel-common"),
        (("drivers", 3, "systems"), ["debian-11"], "drivers/3/systems: debian-11"),
        (("drivers", 3, "verified"), None, "drivers/3/verified"),
        (("drivers", 3, "from"), "", "drivers/3/from"),
        (("drivers", 3, "lack"), {"open": "x"}, "drivers/3: Unevaluated properties"),
        (("drivers", 4, "lacks"), {"fm": "x"}, "drivers/4/lacks: 'fm'"),
        (("drivers", 5, "source"), "elsewhere", "drivers/5: no row of names is for elsewhere"),
        (("names", 0, "kernel", "closed"), ["x"], "names/0/kernel: 'closed'"),
        (("names", 0, "sources"), {"open": ["x"]}, "its names have no sources for flavour proprietary"),
        (("names", 0, "driver"), [], "names/0/driver"),
        (("models", "h100", "generation"), "hoper", "models/h100/generation"),
        (("models", "h100", "lowest"), "525", "models/h100/lowest"),
        (("models", "h100", "board"), "sxm", "models/h100/board"),
        (("models", "gb200", "architecture"), "aarch64", "models/gb200/architecture"),
        (("architectures", "arm64", "deb"), None, "architectures/arm64/deb"),
        (("architectures", "riscv"), {"from": "x", "verified": True}, "architectures: 'riscv'"),
        (("names", 0, "absent"), {"arm": ["x"]}, "names/0/absent: 'arm'"),
        (("repositories", 0, "part"), "toolkit", "repositories/0"),
        (("repositories", 4, "least"), {"arm64": {"debian-1": {}}}, "repositories/4/least: debian-1"),
        (("repositories", 4, "least"), {"arm64": {"debian-12": {"cuda": "13"}}}, "least/arm64/debian-12/cuda"),
        (("repositories", 4, "least"), {"arm": {"debian-12": {"cuda": 13}}}, "repositories/4/least: 'arm'"),
        (("systems", "debian-13", "series"), 6.12, "systems/debian-13/series"),
        (("systems", "debian-13", "headers"), ["linux-headers"], "systems/debian-13/headers/0"),
        (("platforms", "hgx", "parts"), ["fm"], "platforms/hgx/parts/0"),
        (("platforms", "dgx"), {"from": "x", "verified": True}, "platforms: 'dgx'"),
        (("generations", "ada", "flavours"), [], "generations/ada/flavours"),
        (("systems", "rocky-9", "family"), "zypper", "systems/rocky-9/family"),
        (("cuda", "least", "12"), "525", "cuda/least/12"),
        (("dcgm", "packages"), None, "dcgm/packages"),
        (("nccl", "systems"), ["debian-11"], "nccl/systems: debian-11"),
    ],
)
def test_a_mistake_in_the_table_is_found_with_its_row(path: tuple[Any, ...], value: object, named: str) -> None:
    data = rows()
    place: Any = data
    for key in path[:-1]:
        place = place[key]
    place[path[-1]] = value
    assert named in "\n".join(mistakes(data))


def test_a_table_with_nothing_that_works_says_so() -> None:
    data = rows()
    data["models"] = {"v100": {**data["models"]["v100"], "lowest": 700, "highest": 0}}
    with pytest.raises(StackError, match="Nothing in the table works"):
        resolve(ask("debian-13 debian 550", "v100"), stack_table.build(data))


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
    assert driver_versions.numbers(earlier) < driver_versions.numbers(later)


def test_branch_refuses_what_is_none() -> None:
    assert driver_versions.branch("580") == driver_versions.branch("580.65.06") == 580
    with pytest.raises(ValueError, match="neither a driver branch"):
        driver_versions.branch("latest")


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
    assert driver_versions.kernel(release) == expected


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
    assert {driver_versions.architecture(release) for release in kernels} == set(TABLE.architectures)
