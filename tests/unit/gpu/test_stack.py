# SPDX-License-Identifier: GPL-3.0-or-later
"""The resolver of the GPU stack: what it installs and pins, what it refuses, and that what it proposes instead works."""

from __future__ import annotations

import fnmatch
import json
import re
from copy import deepcopy
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from ansible_collections.bedplate.cluster.plugins.module_utils.gpu import rules, table, versions, words
from ansible_collections.bedplate.cluster.plugins.module_utils.gpu.model import Driver
from ansible_collections.bedplate.cluster.plugins.module_utils.gpu.stack import (
    Package,
    Request,
    Stack,
    StackError,
    resolve,
)
from tests.unit.gpu.stack_cases import BAD, GOOD, ask

ROOT = Path(__file__).parents[3]
DATA = ROOT / "plugins/module_utils/gpu/stack.json"
TABLE = table.default()
# Names of one version with the driver, wherever they come from.
COUPLED = ("kernel", "driver", "fabric")
UNCOUPLED = {"nvlsm", "infiniband-diags", "libibumad3", "libibumad"}


def refused(request: Request) -> StackError:
    with pytest.raises(StackError) as caught:
        resolve(request)
    return caught.value


def either(request: Request) -> Stack | StackError:
    try:
        return resolve(request)
    except StackError as error:
        return error


def upstream(package: Package) -> str:
    """Return the driver's version in a package's: 580.126.09 of 3:580.126.09-*."""
    return package.version.split(":")[-1].split("-")[0]


def check_one_version(stack: Stack) -> None:
    coupled = [one for one in stack.packages if one.part in COUPLED and one.name not in UNCOUPLED]
    assert {upstream(one) for one in coupled} == {stack.driver}
    assert {"kernel", "driver"} <= {one.part for one in coupled}
    pinned = dict(stack.pinned)
    assert {one.name: one.version for one in coupled}.items() <= pinned.items()
    assert "*" not in pinned.values()
    assert len({one.name for one in stack.packages}) == len(stack.packages)


def check_no_metapackage(stack: Stack) -> None:
    drags = (
        "cuda",
        "cuda-[0-9]*",
        "cuda-drivers*",
        "cuda-runtime*",
        "nvidia-open",
        "nvidia-driver",
        "nvidia-driver-[0-9]*",
    )
    assert not [one.name for one in stack.packages for pattern in drags if fnmatch.fnmatch(one.name, pattern)]


def check_refusals(error: StackError) -> None:
    assert error.refusals
    for refusal in error.refusals:
        check_one_version(resolve(refusal.instead))
        assert "This works: " in refusal.text
        assert not refusal.text.endswith("This works: .")


@pytest.mark.parametrize("name", GOOD)
def test_resolves(name: str) -> None:
    case = GOOD[name]
    stack = resolve(case.request)
    assert (stack.driver, stack.module) == (case.driver, case.module)
    packages = {one.name: one.version for one in stack.packages}
    assert case.has.items() <= packages.items()
    assert not set(case.lacks) & set(packages)
    assert {key: getattr(stack, key) for key in case.more} == case.more
    check_one_version(stack)
    check_no_metapackage(stack)


@pytest.mark.parametrize("name", BAD)
def test_refuses(name: str) -> None:
    request, expected = BAD[name]
    error = refused(request)
    assert {one.rule for one in error.refusals} == expected
    check_refusals(error)


def test_every_rule_has_a_case_that_it_refuses() -> None:
    said = set().union(*(expected for _, expected in BAD.values()))
    sources = "".join(Path(str(one.__file__)).read_text(encoding="utf-8") for one in (rules, words))
    known = set(re.findall(r'Problem\(\s*"([a-z0-9-]+)"', sources)) | set(re.findall(r'rule = "([a-z-]+)"', sources))
    assert known <= said, known - said
    assert len(GOOD) + len(BAD) >= 60


# What an operator reads: both sides, why, and what to write instead.
@pytest.mark.parametrize(
    ("name", "parts"),
    [
        ("B200 with Debian 13's driver", ["b200", "570", "550", "debian on debian-13", "source: nvidia; driver: 580"]),
        ("V100, open", ["v100", "volta", "proprietary", "module left out"]),
        ("Debian 12, open, with its security", ["535.309.01", "bookworm-security", "module left out"]),
        ("Debian 12, old driver on new kernel", ["535.261.03", "6.1.0-56-amd64", "6.1.0-50", "driver: 535"]),
        ("HGX H100 from Debian", ["fabricmanager", "debian on debian-13", "source: nvidia"]),
        ("HGX B200 from Canonical", ["nvlsm", "canonical on ubuntu-24.04", "source: nvidia"]),
        (
            "a fabric manager of another version",
            ["fabricmanager", "590.48.01", "nvidia-fabricmanager-595", "driver: 595"],
        ),
        ("CUDA 13 with 570", ["CUDA 13.0", "580", "570", "driver: 580"]),
        ("DCGM of the wrong CUDA", ["CUDA 12", "CUDA 13", "580.126.09", "dcgm: 4"]),
        ("a stream on EL 9", ["nvidia-driver:580-open", "driver: 580"]),
        ("a stream on EL 10", ["no module streams", "driver: 580"]),
        ("a package of 590 with a suffix", ["nvidia-dkms-open", "driver: 590"]),
        ("a branch that another source has", ["550.163.01", "nvidia has it", "source: nvidia"]),
        ("unknown system", ["debain-13", "nearest: debian-13", "os: debian-13"]),
        ("V100 beside B200", ["v100 takes proprietary", "b200 takes open", "gpus: v100"]),
    ],
)
def test_says_both_sides_and_what_works(name: str, parts: list[str]) -> None:
    text = str(refused(BAD[name][0]))
    assert [part for part in parts if part not in text] == []


def test_pins_what_may_come_later_too() -> None:
    pinned = dict(resolve(ask("debian-12 debian 535.261.03", "a100", kernel="6.1.0-50-amd64")).pinned)
    # Security's newer ones, and the flavour that is not installed, must not come in by a dependency.
    assert pinned["nvidia-kernel-dkms"] == pinned["libnvcuvid1"] == pinned["nvidia-driver-bin"] == "535.261.03-1"
    assert pinned["nvidia-modprobe"] == "535.161.07-1~deb12u1"
    assert pinned["linux-image-6.1.0-50-amd64"] == pinned["linux-headers-6.1.0-50-amd64"] == "6.1.176-1"


def test_pins_the_kernel_of_el() -> None:
    pinned = dict(resolve(GOOD["EL 9: stream and epoch"].request).pinned)
    assert pinned["kernel-core"] == pinned["kernel-devel"] == "5.14.0-503.el9"
    assert pinned["nvidia-modprobe"] == "3:580.126.09-*"


def test_says_what_is_not_verified() -> None:
    notes = resolve(ask("ubuntu-24.04 nvidia 580", "h100", dcgm="4", toolkit="1.20.0", cuda=("12.8",))).notes
    assert [note.split(":")[0] for note in notes] == [
        "driver 580.126.09 of nvidia",
        "package names of nvidia, branch 580",
        "CUDA 12.8",
        "DCGM 4.6.0",
        "container toolkit 1.20.0",
    ]


# ---- any request at all


def words_of(known: list[str], *more: str) -> st.SearchStrategy[str]:
    return st.sampled_from([*known, *more])


DRIVERS = sorted({word for one in TABLE.drivers for word in (one.version, str(one.branch))})
CUDA = sorted({version for one in TABLE.cuda for version in one.versions})
KERNELS = sorted({kernel for one in TABLE.systems.values() for kernel in one.kernels})
REQUESTS = st.builds(
    Request,
    os=words_of(list(TABLE.systems), "debian"),
    source=words_of(TABLE.sources(), "ubuntu"),
    driver=words_of(DRIVERS, "580-open", "3:580.126.09", "nvidia-driver-590", "latest", "", "999"),
    gpus=st.lists(words_of(list(TABLE.models), "h1000"), max_size=3).map(tuple),
    platform=words_of(["", "", "hgx", "nvl72", "pcie"], "dgx"),
    gpu_count=st.sampled_from([0, 1, 4, 8, 16, -1]),
    module=words_of(["", "", "open", "proprietary"], "closed"),
    cuda=st.lists(words_of(CUDA, "cuda", "13", ""), max_size=2, unique=True).map(tuple),
    dcgm=words_of(["", "", "4", "3", *TABLE.dcgm.versions], "4-cuda12", "4-cuda13", "x"),
    toolkit=words_of(["", "", *TABLE.toolkit.versions], "2"),
    kernel=words_of(["", "", *KERNELS], "5.14.0-503.el9.x86_64", "x"),
)


def proper(driver: Driver) -> st.SearchStrategy[Request]:
    """Requests of which only what stands beside the driver may be wrong."""
    return st.builds(
        Request,
        os=st.sampled_from(driver.systems),
        source=st.just(driver.source),
        driver=st.sampled_from([driver.version, str(driver.branch)]),
        gpus=st.lists(st.sampled_from(list(TABLE.models)), min_size=1, max_size=1).map(tuple),
        gpu_count=st.sampled_from([0, 8]),
        module=st.sampled_from(["", "", *driver.flavours]),
        cuda=st.lists(st.sampled_from(CUDA), max_size=1).map(tuple),
        dcgm=st.sampled_from(["", TABLE.dcgm.major]),
        toolkit=st.sampled_from(["", TABLE.toolkit.versions[-1]]),
        kernel=st.sampled_from(["", *KERNELS]),
    )


@settings(max_examples=150, deadline=None)
@given(st.one_of(REQUESTS, st.sampled_from(TABLE.drivers).flatmap(proper)))
def test_any_request_resolves_or_is_refused_with_one_that_does(request: Request) -> None:
    outcome = either(request)
    if isinstance(outcome, Stack):
        check_one_version(outcome)
        check_no_metapackage(outcome)
    else:
        check_refusals(outcome)


def test_what_is_proposed_changes_nothing_that_is_right() -> None:
    for request, _ in BAD.values():
        instead = refused(request).refusals[0].instead
        assert instead.kernel in (request.kernel, "")
        assert replace(instead, toolkit="") == instead or request.toolkit
        if request.os in TABLE.systems:
            assert instead.os == request.os
        if len(request.gpus) == 1 and request.gpus[0] in TABLE.models:
            assert instead.gpus == request.gpus


# ---- the table


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


def test_no_code_holds_a_driver_version() -> None:
    """A version in code, a task or a default would be one that the table does not pin."""
    places = [*(ROOT / "plugins").rglob("*"), *(ROOT / "roles").rglob("*"), *(ROOT / "playbooks").rglob("*")]
    code = [one for one in places if one.suffix in (".py", ".yml", ".j2")]
    driver = re.compile(r"(?<![0-9.])[3-9][0-9]{2}\.[0-9]{2,3}\.[0-9]{2}(?![0-9.])")
    assert all(driver.fullmatch(one.version) for one in TABLE.drivers)
    found = [
        f"{one.relative_to(ROOT)}: {hit}" for one in code for hit in driver.findall(one.read_text(encoding="utf-8"))
    ]
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
    ],
)
def test_kernel_releases_compare_without_flavour(release: str, expected: tuple[int, ...]) -> None:
    assert versions.kernel(release) == expected
