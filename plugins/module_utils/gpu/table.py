# SPDX-License-Identifier: GPL-3.0-or-later
"""The one reader of stack.json. It refuses a malformed table and names the row."""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping
from functools import lru_cache
from pathlib import Path
from typing import Any

from ansible_collections.bedplate.cluster.plugins.module_utils.gpu import versions
from ansible_collections.bedplate.cluster.plugins.module_utils.gpu.model import (
    ARCHITECTURES,
    BOARDS,
    FABRIC,
    FLAVOURS,
    Break,
    CudaOffer,
    Driver,
    Extra,
    Fabric,
    Generation,
    Known,
    Model,
    Names,
    Nccl,
    Origin,
    Platform,
    System,
    Table,
)

# Above every branch.
_NO_END = 9999
_FAMILIES = ("deb", "rpm")


class TableError(ValueError):
    """stack.json is malformed; the message names the row."""


class _Row:
    """One row of the file, read with its place."""

    def __init__(self, where: str, data: object) -> None:
        self.where = where
        if not isinstance(data, dict):
            raise TableError(f"stack.json, {where}: this is {type(data).__name__}, expected an object")
        self.data: dict[str, Any] = data

    def wrong(self, key: str, expected: str) -> TableError:
        return TableError(f"stack.json, {self.where}: {key} is {self.data.get(key)!r}; expected {expected}")

    def text(self, key: str, default: str | None = None) -> str:
        value = self.data.get(key, default)
        if not isinstance(value, str) or (default is None and not value):
            raise self.wrong(key, "a text")
        return value

    def number(self, key: str, default: int | None = None) -> int:
        value = self.data.get(key, default)
        if not isinstance(value, int) or isinstance(value, bool):
            raise self.wrong(key, "a whole number")
        return value

    def texts(self, key: str, allowed: Iterable[str] = ()) -> tuple[str, ...]:
        value = self.data.get(key, [])
        allowed = list(allowed)
        if not isinstance(value, list) or not all(isinstance(one, str) for one in value):
            raise self.wrong(key, "a list of texts")
        if allowed and not set(value) <= set(allowed):
            raise self.wrong(key, f"only {', '.join(allowed)}")
        return tuple(value)

    def needed(self, key: str, allowed: Iterable[str] = ()) -> tuple[str, ...]:
        value = self.texts(key, allowed)
        if not value:
            raise self.wrong(key, "at least one")
        return value

    def mapping(self, key: str) -> dict[str, str]:
        value = self.data.get(key, {})
        if not isinstance(value, dict) or not all(isinstance(one, str) for one in value.values()):
            raise self.wrong(key, "texts by name")
        return dict(value)

    def lists(self, key: str, allowed: Iterable[str]) -> dict[str, tuple[str, ...]]:
        row = self.row(key)
        unknown = sorted(set(row.data) - set(allowed))
        if unknown:
            raise TableError(f"stack.json, {row.where}: unknown {', '.join(unknown)}; allowed: {', '.join(allowed)}")
        return {name: row.needed(name) for name in row.data}

    def row(self, key: str) -> _Row:
        return _Row(f"{self.where}, {key}", self.data.get(key, {}))

    def rows(self, key: str) -> list[_Row]:
        value = self.data.get(key)
        if isinstance(value, dict):
            return [_Row(f"{key}, {name}", one) for name, one in value.items()]
        if isinstance(value, list):
            return [_Row(f"{key}, row {number + 1}", one) for number, one in enumerate(value)]
        raise self.wrong(key, "rows")

    def known(self) -> Known:
        verified = self.data.get("verified")
        if not isinstance(verified, bool):
            raise self.wrong("verified", "true or false")
        return Known(self.text("from"), verified)


def read(path: Path | None = None) -> Table:
    """Read a table, ours without a path. TableError for what is malformed."""
    place = path or Path(__file__).with_name("stack.json")
    try:
        data = json.loads(place.read_text(encoding="utf-8"))
    except ValueError as error:
        raise TableError(f"{place}: not JSON: {error}") from None
    return build(data)


@lru_cache(maxsize=1)
def default() -> Table:
    """Return our own table, read once."""
    return read()


def build(data: object) -> Table:
    """Make the table of what stack.json holds. TableError for what is malformed."""
    whole = _Row("the whole", data)
    architectures = {_last(row): _architecture(row) for row in whole.rows("architectures")}
    systems = {_last(row): _system(row, architectures) for row in whole.rows("systems")}
    generations = {_last(row): _generation(row) for row in whole.rows("generations")}
    cuda = whole.row("cuda")
    least = cuda.row("least")
    of_driver = cuda.row("of_driver")
    for row in (least, of_driver):
        row.known()
    table = Table(
        architectures=architectures,
        systems=systems,
        models={_last(row): _model(row, generations) for row in whole.rows("models")},
        platforms={_last(row): _platform(row) for row in whole.rows("platforms")},
        repositories=tuple(_origin(row, systems) for row in whole.rows("repositories")),
        names=tuple(_names(row, systems) for row in whole.rows("names")),
        drivers=tuple(_driver(row, systems) for row in whole.rows("drivers")),
        breaks=tuple(_break(row, systems) for row in whole.rows("breaks")),
        cuda_least={key: least.number(key) for key in least.data if key.isdigit()},
        cuda_of_driver=tuple(sorted((int(key), of_driver.text(key)) for key in of_driver.data if key.isdigit())),
        metapackages=cuda.row("metapackages").needed("patterns"),
        cuda=tuple(_cuda(row, systems) for row in cuda.rows("offers")),
        dcgm=_extra(whole.row("dcgm"), systems),
        toolkit=_extra(whole.row("toolkit"), systems),
        nccl=_nccl(whole.row("nccl"), systems),
    )
    for driver, row in zip(table.drivers, whole.rows("drivers")):
        for system in driver.systems:
            _complete(table, driver, system, row)
    return table


def _last(row: _Row) -> str:
    return row.where.rsplit(", ", 1)[-1]


def _architecture(row: _Row) -> dict[str, str]:
    row.known()
    if _last(row) not in ARCHITECTURES:
        raise TableError(f"stack.json, {row.where}: unknown architecture; allowed: {', '.join(ARCHITECTURES)}")
    return {family: row.text(family) for family in _FAMILIES}


def _system(row: _Row, architectures: Mapping[str, Mapping[str, str]]) -> System:
    headers = row.data.get("headers")
    if not isinstance(headers, list) or not all(isinstance(one, list) and len(one) == 2 for one in headers):
        raise row.wrong("headers", "pairs of package and version")
    family = row.text("family")
    if family not in _FAMILIES:
        raise row.wrong("family", "deb or rpm")
    pairs = tuple((str(name), str(version)) for name, version in headers)
    # One source package makes the kernels of all architectures.
    names = [architecture[family] for architecture in architectures.values()]
    kernels = {key.format(arch=name): one for key, one in row.mapping("kernels").items() for name in names}
    pins, follows = row.needed("kernel_pins"), row.needed("kernel_follows")
    series, extra = row.text("series"), row.texts("modules_extra")
    return System(_last(row), family, pairs, pins, follows, kernels, row.mapping("stream"), series, extra, row.known())


def _generation(row: _Row) -> Generation:
    row.known()
    return Generation(_last(row), row.needed("flavours", FLAVOURS), row.data.get("nvlink5") is True)


def _model(row: _Row, generations: dict[str, Generation]) -> Model:
    row.known()
    generation, board = row.text("generation"), row.text("board")
    if generation not in generations:
        raise row.wrong("generation", f"one of {', '.join(generations)}")
    if board not in BOARDS:
        raise row.wrong("board", f"one of {', '.join(BOARDS)}")
    architecture = row.text("architecture", ARCHITECTURES[0])
    if architecture not in ARCHITECTURES:
        raise row.wrong("architecture", f"one of {', '.join(ARCHITECTURES)}")
    lowest, highest = row.number("lowest"), row.number("highest", 0)
    return Model(_last(row), architecture, generations[generation], board, lowest, highest)


def _fabric(row: _Row) -> Fabric:
    parts, services, modules = row.texts("parts", FABRIC), row.texts("services"), row.texts("modules_load")
    return Fabric(parts, services, modules, row.mapping("least_kernel"), row.text("nodes_file", ""))


def _platform(row: _Row) -> Platform:
    row.known()
    if _last(row) not in BOARDS:
        raise TableError(f"stack.json, {row.where}: unknown platform; allowed: {', '.join(BOARDS)}")
    fabric = _fabric(row)
    nvlink5 = _fabric(row.row("nvlink5")) if "nvlink5" in row.data else fabric
    return Platform(_last(row), row.number("least_gpus", 0), fabric, nvlink5)


def _origin(row: _Row, systems: dict[str, System]) -> Origin:
    called = row.mapping("systems")
    if not called or not set(called) <= set(systems):
        raise row.wrong("systems", f"names of {', '.join(systems)}")
    source, part = row.text("source", ""), row.text("part", "")
    if bool(source) == bool(part):
        raise row.wrong("source", "a text, where there is no part")
    return Origin(
        name=row.text("name"),
        source=source,
        part=part,
        systems=called,
        url=row.text("url"),
        urls=row.mapping("urls"),
        least=_least(row.row("least"), systems),
        suites=row.needed("suites"),
        components=row.texts("components"),
        keyring=row.text("keyring", ""),
        origin=row.text("origin"),
        unsigned_rpms=row.data.get("unsigned_rpms") is True,
        known=row.known(),
    )


def _least(row: _Row, systems: Mapping[str, System]) -> dict[str, dict[str, dict[str, int]]]:
    found: dict[str, dict[str, dict[str, int]]] = {}
    for architecture in row.data:
        by_system = row.row(architecture)
        unknown = sorted({architecture} - set(ARCHITECTURES) | set(by_system.data) - set(systems))
        if unknown:
            raise TableError(f"stack.json, {row.where}: unknown {', '.join(unknown)}")
        rows = {system: by_system.row(system) for system in by_system.data}
        found[architecture] = {
            system: {what: one.number(what, 0) for what in ("driver", "cuda")} for system, one in rows.items()
        }
    return found


def _names(row: _Row, systems: dict[str, System]) -> Names:
    return Names(
        source=row.text("source"),
        systems=row.needed("systems", systems),
        least=row.number("least", 0),
        below=row.number("below", _NO_END),
        epoch=row.text("epoch", ""),
        kernel=row.lists("kernel", FLAVOURS),
        driver=row.needed("driver"),
        coupled=row.texts("coupled"),
        support=row.texts("support"),
        absent=row.lists("absent", ARCHITECTURES),
        fabric=row.lists("fabric", FABRIC),
        dkms=row.mapping("dkms"),
        module_file=row.mapping("module_file"),
        options_file=row.mapping("options_file"),
        options_module=row.mapping("options_module"),
        persistence_user=row.text("persistence_user", ""),
        known=row.known(),
    )


def _driver(row: _Row, systems: dict[str, System]) -> Driver:
    version, packages = row.text("version"), row.text("packages", "")
    if not versions.is_exact(version):
        raise row.wrong("version", "a whole driver version, such as 580.x.y")
    # Module, user space and fabric are one version: a package version of another one would break that for all of them.
    if packages and not packages.startswith(f"{version}-"):
        raise row.wrong("packages", f"a package version of driver {version}, such as {version}-1")
    lacks = row.mapping("lacks")
    if not set(lacks) <= {*FLAVOURS, *FABRIC}:
        raise row.wrong("lacks", f"only {', '.join((*FLAVOURS, *FABRIC))}")
    return Driver(
        source=row.text("source"),
        systems=row.needed("systems", systems),
        version=version,
        packages=packages,
        flavours=row.needed("flavours", FLAVOURS),
        own=row.mapping("own"),
        lacks=lacks,
        known=row.known(),
    )


def _complete(table: Table, driver: Driver, system: str, row: _Row) -> None:
    """Refuse a driver of which the table does not say how its packages, or files, are called."""
    names = table.names_of(system, driver.source, driver.branch)
    if names is None:
        raise TableError(
            f"stack.json, {row.where}: no row of names is for {driver.source} on {system}, {driver.branch}"
        )
    for flavour in driver.flavours:
        for key in ("kernel", "dkms", "module_file", "options_file", "options_module"):
            if flavour not in getattr(names, key):
                raise TableError(f"stack.json, {row.where}: its names have no {key} for flavour {flavour}")
    lacking = sorted(set(names.support) - set(driver.own))
    if lacking:
        raise TableError(f"stack.json, {row.where}: own has no version of {', '.join(lacking)}")


def _break(row: _Row, systems: dict[str, System]) -> Break:
    row.known()
    texts = (row.text(key) for key in ("version", "works", "fails", "why"))
    return Break(row.needed("systems", systems), *texts)


def _cuda(row: _Row, systems: dict[str, System]) -> CudaOffer:
    offered = row.row("versions")
    packages = {version: offered.mapping(version) for version in offered.data}
    components = row.texts("components")
    return CudaOffer(row.text("source"), row.needed("systems", systems), packages, components, row.known())


def _extra(row: _Row, systems: dict[str, System]) -> Extra:
    return Extra(
        source=row.text("source"),
        systems=row.needed("systems", systems),
        versions=row.needed("versions"),
        version=row.text("version"),
        packages=row.needed("packages"),
        cuda=row.texts("cuda"),
        forbidden=row.text("forbidden", ""),
        service=row.text("service", ""),
        known=row.known(),
    )


def _nccl(row: _Row, systems: dict[str, System]) -> Nccl:
    offered = row.row("versions")
    built = {version: offered.mapping(version) for version in offered.data}
    packages = row.lists("packages", ("deb", "rpm"))
    return Nccl(row.text("source"), row.needed("systems", systems), packages, built, row.known())
