# SPDX-License-Identifier: GPL-3.0-or-later
"""The resolver of the GPU stack: what it installs and pins, what it refuses, and that what it proposes instead works."""

from __future__ import annotations

import fnmatch
import re
from dataclasses import replace
from datetime import date
from pathlib import Path

import pytest
import yaml
from hypothesis import given, settings
from hypothesis import strategies as st

from ansible_collections.bedplate.cluster.plugins.plugin_utils.cluster.schema.gpu_sections import GPU_STACK
from ansible_collections.bedplate.cluster.plugins.plugin_utils.gpu_stack import (
    driver_versions,
    request_mistakes,
    rules,
    rules_gpu,
    rules_gpudirect,
    rules_machine,
    stack_table,
)
from ansible_collections.bedplate.cluster.plugins.plugin_utils.gpu_stack import resolve as resolver
from ansible_collections.bedplate.cluster.plugins.plugin_utils.gpu_stack.resolve import (
    Request,
    Stack,
    StackError,
    StackPackage,
    resolve,
)
from ansible_collections.bedplate.cluster.plugins.plugin_utils.gpu_stack.stack_model import Driver
from tests.kit import sentences
from tests.unit.gpu_stack.stack_cases import BAD, GOOD, NV_13, ask

SENTENCES = Path(__file__).parent / "sentences.txt"

TABLE = stack_table.default()
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


def upstream(package: StackPackage) -> str:
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


def check_refusals(error: StackError, request: Request) -> None:
    assert error.refusals
    for refusal in error.refusals:
        check_one_version(resolve(refusal.instead))
        proposed = refusal.text.rpartition("his works: ")[2] if "his works: " in refusal.text else ""
        # Nobody buys other GPUs for a driver.
        assert "gpus: " not in refusal.text
        assert proposed not in ("", ".") or replace(request, gpus=refusal.instead.gpus) == refusal.instead


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
    check_refusals(error, request)


def test_every_rule_has_a_case_that_it_refuses() -> None:
    said = set().union(*(expected for _, expected in BAD.values()))
    sources = "".join(
        Path(str(one.__file__)).read_text(encoding="utf-8")
        for one in (rules, rules_gpu, rules_gpudirect, rules_machine, request_mistakes)
    )
    known = set(re.findall(r'RuleViolation\(\s*"([a-z0-9-]+)"', sources)) | set(
        re.findall(r'rule = "([a-z-]+)"', sources)
    )
    # One that finds no rules, for their class was renamed, would hold for ever.
    assert len(known) > 30
    assert known <= said, known - said
    assert len(GOOD) + len(BAD) >= 60


# What an operator reads: both sides, why, and what to write instead.
@pytest.mark.parametrize(
    ("name", "parts"),
    [
        (
            "B200 with Debian 13's driver",
            ["b200", "570", "550", "debian on debian-13", 'source: nvidia; driver: "580"'],
        ),
        ("V100, open", ["v100", "volta", "proprietary", "module left out"]),
        ("Debian 12, open, with its security", ["535.309.01", "bookworm-security", "module left out"]),
        ("Debian 12, old driver on new kernel", ["535.261.03", "6.1.0-56-amd64", "6.1.0-50", 'driver: "535"']),
        ("HGX H100 from Debian", ["fabricmanager", "debian on debian-13", "source: nvidia"]),
        ("HGX B200 from Canonical", ["nvlsm", "canonical on ubuntu-24.04", "source: nvidia"]),
        (
            "a fabric manager of another version",
            ["fabricmanager", "590.48.01", "nvidia-fabricmanager-595", 'driver: "595"'],
        ),
        ("CUDA 13 with 570", ["CUDA 13.0", "580", "570", 'driver: "580"']),
        ("DCGM of the wrong CUDA", ["CUDA 12", "CUDA 13", "580.126.09", 'dcgm: "4"']),
        ("a stream on EL 9", ["nvidia-driver:580-open", 'driver: "580"']),
        ("a stream on EL 10", ["rocky-10", 'driver: "580"']),
        ("a stream on Ubuntu", ["which only dnf of EL 9 has", "driver: "]),
        ("a package of 590 with a suffix", ["nvidia-dkms-open", 'driver: "590"']),
        ("a branch that another source has", ["550.163.01", "source: nvidia"]),
        ("unknown branch", ["585", "580.126.09, 590.48.01", 'driver: "595"']),
        ("unknown system", ["debain-13", "nearest: debian-13", "os: debian-13"]),
        (
            "GB200 on Debian 12's sbsa, too early a driver",
            ["gb200", "arm64", "driver 580", "590.48.01, 595.71.05", 'driver: "595"'],
        ),
        ("GH200 on Debian 12's sbsa, too early a CUDA", ["arm64", "CUDA 12.8", " 13.0, ", 'cuda: ["13.0"]']),
        ("GH200 with a kernel of x86_64", ["6.12.117+deb13-amd64", "x86_64", "kernel: 6.12.117+deb13-arm64"]),
        ("H100 with a kernel of arm64, on EL", ["el9.aarch64", "arm64", "kernel: 5.14.0-503.el9.x86_64"]),
        ("GB200 with pages of 64 KiB, on EL", ["kernel-64k-*", "kernel: 5.14.0-503.el9.aarch64"]),
        ("a kernel of Ubuntu on EL", ["6.8.0-generic is of Ubuntu", "rocky-9", ".el9", "kernel left out"]),
        ("a kernel of EL 9 on EL 10", ["Enterprise Linux 9", "rocky-10", "kernel left out"]),
        ("B200 with too old a stated kernel", ["kernel 5.15.0-160-generic is stated", "5.17"]),
        ("B200 on Ubuntu's first kernel", ["5.17", "ib_umad", " 5.15", "`kernel`", "os: ubuntu-24.04"]),
        ("a module of GPUDirect without a version", ["gdrcopy=VERSION"]),
        ("nvidia-fs with a proprietary module", ["2.26.6", "2.17.5", "module: open"]),
        ("GH200 beside H100", ["gh200", "arm64", "h100", "x86_64", "Put the models on separate nodes"]),
        ("V100 beside B200", ["v100", "proprietary", "b200", "open", "put the models on separate nodes"]),
    ],
)
def test_says_both_sides_and_what_works(name: str, parts: list[str]) -> None:
    text = str(refused(BAD[name][0]))
    assert [part for part in parts if part not in text] == []
    sentences.check(SENTENCES, f"refused: {name}", [text])


@pytest.mark.parametrize(
    ("request_", "key", "value"),
    [
        (BAD["unknown branch"][0], "driver", "595"),
        (BAD["unknown CUDA"][0], "cuda", ["12.6"]),
        (BAD["DCGM of the wrong CUDA"][0], "dcgm", "4"),
        (BAD["unknown container toolkit"][0], "container_toolkit", None),
        (ask(f"{NV_13} 580", "h100", nccl="2.99"), "nccl", None),
    ],
)
def test_what_works_can_be_pasted_into_the_cluster_file(request_: Request, key: str, value: object) -> None:
    proposed = refused(request_).refusals[0].text.rpartition("his works: ")[2].removesuffix(".")
    pasted = yaml.safe_load(proposed)
    assert list(pasted) == [key]
    assert value in (None, pasted[key])
    # A version without quotes is a number.
    found = pasted[key] if GPU_STACK[key].type == "list" else [pasted[key]]
    assert [type(one) for one in found] == [str]


def test_a_branch_past_its_end_of_life_is_proposed_only_where_no_other_works_or_where_it_was_named(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    assert refused(BAD["unknown branch"][0]).refusals[0].instead.driver == "595"
    monkeypatch.setattr(resolver, "today", lambda: date(2026, 9, 30))
    assert refused(BAD["unknown branch"][0]).refusals[0].instead.driver == "590"
    monkeypatch.setattr(resolver, "today", lambda: date(2027, 4, 1))
    assert refused(BAD["unknown branch"][0]).refusals[0].instead.driver == "615"
    # The request names the branch.
    assert refused(BAD["a package of 590 with a suffix"][0]).refusals[0].instead.driver == "590"


def test_pins_what_may_come_later_too() -> None:
    pinned = dict(resolve(ask("debian-12 debian 535.261.03", "a100", kernel="6.1.0-50-amd64")).pinned)
    # Security's newer ones, and the flavour that is not installed, must not come in by a dependency.
    assert pinned["nvidia-kernel-dkms"] == pinned["libnvcuvid1"] == pinned["nvidia-driver-bin"] == "535.261.03-1"
    assert pinned["nvidia-modprobe"] == "535.161.07-1~deb12u1"
    assert pinned["linux-image-6.1.0-50-amd64"] == pinned["linux-headers-6.1.0-50-amd64"] == "6.1.176-1"


def test_knows_how_other_drivers_are_called() -> None:
    nvidia, canonical = (
        resolve(ask("ubuntu-24.04 nvidia 590", "h100")),
        resolve(ask("ubuntu-24.04 canonical 580", "h100")),
    )
    # Of the branch with a suffix, and of Canonical's.
    assert {"libnvidia-compute-[0-9]*", "nvidia-dkms-[0-9]*-open", "nvidia-utils-[0-9]*-server"} <= set(nvidia.others)
    assert "nvidia-firmware-[0-9]*-server-*" in nvidia.others
    # Without a branch in its name this may be of Ubuntu's own there.
    assert "nvidia-modprobe" in nvidia.others
    assert "nvidia-modprobe" not in canonical.others
    assert not {name for name in nvidia.others if any(fnmatch.fnmatchcase(one, name) for one in UNCOUPLED)}
    assert "libnvidia-nscq-[0-9]*" in resolve(ask("rocky-9 nvidia 580", "h100")).others


def test_pins_the_kernel_of_el() -> None:
    pinned = dict(resolve(GOOD["EL 9: stream and epoch"].request).pinned)
    assert pinned["kernel-core"] == pinned["kernel-devel"] == "5.14.0-503.el9"
    assert pinned["nvidia-modprobe"] == "3:580.126.09-*"


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
        check_refusals(outcome, request)


def test_what_is_proposed_changes_nothing_that_is_right() -> None:
    for request, rules_said in BAD.values():
        instead = refused(request).refusals[0].instead
        if driver_versions.architecture(request.kernel):
            assert driver_versions.architecture(instead.kernel) in ("", TABLE.models[request.gpus[0]].architecture)
        else:
            assert instead.kernel in (request.kernel, "")
        assert replace(instead, toolkit="") == instead or request.toolkit
        # Where a system comes with too old a kernel, another one does not.
        if request.os in TABLE.systems and "kernel-fabric" not in rules_said:
            assert instead.os == request.os
        if len(request.gpus) == 1 and request.gpus[0] in TABLE.models:
            assert instead.gpus == request.gpus
