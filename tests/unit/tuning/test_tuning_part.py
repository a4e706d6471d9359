"""What the role brings to a node, and what its variables and a profile may not ask for."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

import pytest
import yaml

from ansible_collections.bedplate.cluster.plugins.plugin_utils.cluster import ClusterFileError, load
from ansible_collections.bedplate.cluster.plugins.plugin_utils.common.file_entries import mistakes as file_mistakes
from ansible_collections.bedplate.cluster.plugins.plugin_utils.slurm.record_lines import real_memory
from ansible_collections.bedplate.cluster.plugins.plugin_utils.tuning.tuning_part import TuningError
from tests.kit import sentences

from .node import FILE, deployed

SENTENCES = Path(__file__).parent / "sentences.txt"


def test_a_node_that_boots_from_the_network_has_its_tokens_compared_alone(tmp_path: Path) -> None:
    text = FILE.replace("    memory_mib:", "    boot: network\n    memory_mib:")
    told, own = deployed(tmp_path, text), deployed(tmp_path)
    assert told["expected"]["boot"] == "network"
    assert told["expected"]["tokens"] == told["steps"]["kernel_cmdline"]["tokens"] == own["expected"]["tokens"]
    assert told["steps"]["kernel_cmdline"]["boot"] == "network"


def test_a_node_without_tokens_is_told_none_and_refuses_what_needs_some(tmp_path: Path) -> None:
    text = FILE.replace("    memory_mib:", "    boot: none\n    memory_mib:")
    told = deployed(tmp_path, text, init_on_alloc=True, isolated_cpus="", cmdline=[])
    assert (told["expected"]["tokens"], told["expected"]["passthrough"]) == ([], False)
    assert set(told["steps"]) == {"huge_pages"}
    with pytest.raises(TuningError) as caught:
        deployed(tmp_path, text)
    lines = str(caught.value).splitlines()
    assert {line.partition(":")[0] for line in lines} == {
        "node_tuning_isolated_cpus", "node_tuning_init_on_alloc", "node_tuning_cmdline",
    }  # fmt: skip
    assert all("profiles.gpu.boot" in line for line in lines)
    sentences.check(SENTENCES, "variables that need tokens, for a profile without", lines)


def test_tuned_is_kept_stopped_or_has_a_profile(tmp_path: Path) -> None:
    def of(choice: str) -> tuple[dict[str, Any] | None, dict[str, str], Any]:
        told = deployed(tmp_path, tuned=choice)
        names = [one["name"] for one in told["units"]]
        unit = next((one for one in told["units"] if one["name"] == "tuned.service"), None)
        assert unit is None or names.index("tuned.service") < names.index("bedplate-tuning.service")
        files = {one["path"]: one["content"] for one in told["files"] if one["path"].startswith("/etc/tuned")}
        return unit, files, told["expected"]["settings"].get("tuned")

    assert of("keep") == (None, {}, None)
    unit, files, setting = of("off")
    assert unit is not None
    assert (unit["enabled"], unit["state"], files, setting) == (False, "stopped", {}, "off")
    unit, files, setting = of("hpc-compute")
    assert unit is not None
    assert (unit["enabled"], unit["state"], setting) == (True, "started", "hpc-compute")
    assert files == {"/etc/tuned/active_profile": "hpc-compute\n", "/etc/tuned/profile_mode": "manual\n"}
    assert set(unit["restart_after"]) == set(files)


_MASKED = {"masked": True, "state": "stopped"}


def test_tokens_are_in_the_order_that_the_kernel_needs(tmp_path: Path) -> None:
    assert deployed(tmp_path)["steps"]["kernel_cmdline"]["tokens"] == [
        "iommu=pt", "hugepagesz=1G", "hugepages=1:1", "hugepagesz=2M", "hugepages=0:16,1:8", "transparent_hugepage=madvise",
        "init_on_alloc=0", "isolcpus=managed_irq,domain,2-3", "nohz_full=2-3", "rcu_nocbs=2-3", "mitigations=auto",
    ]  # fmt: skip


def test_one_size_is_the_default_too_and_a_total_is_split_evenly(tmp_path: Path) -> None:
    text = FILE.replace(", hugepages: {2M: 16}", "").replace(", hugepages: {2M: 8, 1G: 1}", "")
    text = text.replace("    numa:\n", "    hugepages: {2M: 64}\n    numa:\n")
    told = deployed(tmp_path, text, iommu="keep", thp="", init_on_alloc=True, isolated_cpus="", cmdline=[])
    assert told["steps"]["kernel_cmdline"]["tokens"] == [
        "default_hugepagesz=2M",
        "hugepagesz=2M",
        "hugepages=0:32,1:32",
    ]


def test_grace_has_its_own_words_and_keeps_acs(tmp_path: Path) -> None:
    told = deployed(tmp_path, FILE.replace("h100", "gb200"))
    assert told["steps"]["kernel_cmdline"]["tokens"][0] == "iommu.passthrough=1"
    assert not told["expected"]["settings"]["acs_off"]


def test_slurm_gets_what_the_pages_leave(tmp_path: Path) -> None:
    deployed(tmp_path)
    profile = load(tmp_path / "c.bedplate.yml").profiles["gpu"]
    assert real_memory(profile) == 4096 - 24 * 2 - 1024 - 4096 // 50


def test_a_site_changes_adds_and_leaves_sysctl_keys(tmp_path: Path) -> None:
    wanted = deployed(tmp_path, sysctl={"vm.swappiness": 1, "kernel.panic": 10, "vm.max_map_count": None})
    content = {entry["path"]: entry["content"] for entry in wanted["files"] if "content" in entry}[
        "/etc/sysctl.d/60-bedplate.conf"
    ]
    lines = content.splitlines()
    assert {"vm.swappiness = 1", "kernel.panic = 10", "kernel.numa_balancing = 0"} <= set(lines)
    assert "max_map_count" not in content


@pytest.mark.parametrize("memory", [4096, 2063000])
def test_a_checkpoint_waits_for_a_limit_in_bytes(tmp_path: Path, memory: int) -> None:
    text = FILE.replace("memory_mib: 4096", f"memory_mib: {memory}")
    found = deployed(tmp_path, text)["expected"]["settings"]["sysctl"]
    assert not {"vm.dirty_ratio", "vm.dirty_background_ratio"}.intersection(found)
    assert int(found["vm.dirty_bytes"]) >> 20 == min(memory // 10, 16384)
    assert int(found["vm.dirty_background_bytes"]) >> 20 == min(memory * 3 // 100, 4096)


def test_a_key_of_the_site_takes_the_place_of_its_partner(tmp_path: Path) -> None:
    """The kernel sets one of the two to 0, so both in one file are never right."""
    found = deployed(tmp_path, sysctl={"vm/dirty_ratio": 20, "vm.dirty_background_ratio": None})
    settings = found["expected"]["settings"]["sysctl"]
    assert {key: value for key, value in settings.items() if "dirty" in key} == {"vm.dirty_ratio": "20"}


@pytest.mark.parametrize(("rails", "nodes", "most"), [(1, 1, 32768), (8, 120, 32768), (8, 3000, 2 * 3001 * 9)])
def test_the_neighbour_table_has_room_for_every_machine_on_every_rail(
    tmp_path: Path, rails: int, nodes: int, most: int
) -> None:
    """The kernel's table has 1024 entries: 113 nodes with 8 rails fill it."""
    nics = ", ".join(f"{{name: mlx5_{rail}, rail: {rail}}}" for rail in range(rails))
    text = FILE.replace("10.0.0.0/24", "10.0.0.0/16").replace("10.0.0.10}", "10.0.200.10}")
    text = text.replace("[{name: mlx5_0, rail: 0}]", f"[{nics}]").replace("nodes: gpu1,", f'nodes: "gpu[1-{nodes}]",')
    found = deployed(tmp_path, text)["expected"]["settings"]["sysctl"]
    place = "net.ipv4.neigh.default.gc_thresh"
    assert [int(found[f"{place}{number}"]) for number in (1, 2, 3)] == [most // 4, most // 2, most]


def test_limits_are_pams_and_slurmds(tmp_path: Path) -> None:
    content = {entry["path"]: entry["content"] for entry in deployed(tmp_path)["files"] if "content" in entry}
    lines = content["/etc/security/limits.d/60-bedplate.conf"].splitlines()
    assert {"* soft memlock unlimited", "* hard memlock unlimited", "root hard nofile 1048576"} <= set(lines)
    drop_in = content["/etc/systemd/system/slurmd.service.d/60-bedplate-limits.conf"]
    assert drop_in.endswith("[Service]\nLimitMEMLOCK=infinity\nLimitNOFILE=1048576\n")
    told = deployed(tmp_path, limits={"memlock": 64, "nofile": 1024})
    assert (
        "LimitMEMLOCK=65536\n"
        in {entry["path"]: entry["content"] for entry in told["files"] if "content" in entry}[
            "/etc/systemd/system/slurmd.service.d/60-bedplate-limits.conf"
        ]
    )


@pytest.mark.parametrize(
    ("irqs", "cores", "nics", "pins", "irqbalance"),
    [
        ("numa", False, True, True, _MASKED),
        ("numa", False, False, False, None),
        ("auto", True, True, True, _MASKED),
        ("auto", False, True, False, None),
        ("auto", True, False, False, None),
        ("keep", True, True, False, None),
        ("irqbalance", True, True, False, {"masked": False, "enabled": True, "state": "started", "drop_ins": {}}),
    ],
)
def test_irqbalance_is_masked_exactly_where_interrupts_are_pinned(
    tmp_path: Path, irqs: str, cores: bool, nics: bool, pins: bool, irqbalance: dict[str, Any] | None
) -> None:
    text = FILE.replace("    memory_mib:", "    system_cores: 1\n    memory_mib:") if cores else FILE
    if not nics:
        text = text.replace(", nics: [mlx5_0]", "").replace("    nics: [{name: mlx5_0, rail: 0}]\n", "")
    told = deployed(tmp_path, text, irqs=irqs)
    units = {one["name"]: {key: value for key, value in one.items() if key != "name"} for one in told["units"]}
    assert units.get("irqbalance.service") == irqbalance
    assert units["bedplate-irqs.timer"]["state"] == ("started" if pins else "stopped")
    assert ("irqs" in told["expected"]["settings"]) == pins
    content = {entry["path"]: entry["content"] for entry in told["files"] if "content" in entry}
    assert ("/etc/udev/rules.d/62-bedplate-irqs.rules" in content) == pins
    starts = [line for line in content["/etc/systemd/system/bedplate-tuning.service"].splitlines() if "Wants=" in line]
    assert ("bedplate-irqs.timer" in starts[0]) == pins


def test_interrupts_follow_devices_that_appear_and_vectors_that_a_driver_makes(tmp_path: Path) -> None:
    content = {
        entry["path"]: entry["content"] for entry in deployed(tmp_path, irqs="numa")["files"] if "content" in entry
    }
    rules = content["/etc/udev/rules.d/62-bedplate-irqs.rules"].splitlines()
    # An interface is renamed after it was added.
    assert 'ACTION!="add|move", GOTO="bedplate_end"' in rules
    starts = [line for line in rules if 'RUN+="/usr/bin/systemctl --no-block restart bedplate-irqs.service"' in line]
    assert [line.split(",")[0] for line in starts] == ['SUBSYSTEM=="infiniband"', 'SUBSYSTEM=="net"']
    timer = content["/etc/systemd/system/bedplate-irqs.timer"].splitlines()
    assert {"OnActiveSec=60", "OnUnitInactiveSec=60"} <= set(timer)
    assert "tuning.cpu.interrupt_placement " in content["/etc/systemd/system/bedplate-irqs.service"]


def test_the_unit_runs_before_whatever_may_start_jobs(tmp_path: Path) -> None:
    content = {entry["path"]: entry["content"] for entry in deployed(tmp_path)["files"] if "content" in entry}
    lines = content["/etc/systemd/system/bedplate-tuning.service"].splitlines()
    (before,) = (line.partition("=")[2].split() for line in lines if line.startswith("Before="))
    assert {"slurmd.service", "docker.service", "containerd.service", "crio.service"} <= set(before)


def test_pages_on_the_sites_command_line_are_refused(tmp_path: Path) -> None:
    """They would come beside the profile's, or in their place."""
    with pytest.raises(TuningError) as caught:
        deployed(tmp_path, cmdline=["hugepagesz=1G", "hugepages=1"])
    assert [line.partition(":")[0] for line in str(caught.value).splitlines()] == ["node_tuning_cmdline"] * 2


@pytest.mark.parametrize(
    ("token", "name", "left"),
    [
        ("transparent_hugepage=never", "thp", ""),
        ("transparent-hugepage=madvise", "thp", ""),
        ("iommu=off", "iommu", "keep"),
        ("iommu.passthrough=0", "iommu", "keep"),
        ("init_on_alloc=1", "init_on_alloc", True),
        ("nohz_full=1", "isolated_cpus", ""),
    ],
)
def test_a_token_beside_the_variable_of_its_key_is_refused(tmp_path: Path, token: str, name: str, left: Any) -> None:
    with pytest.raises(TuningError) as caught:
        deployed(tmp_path, cmdline=[token])
    (line,) = str(caught.value).splitlines()
    assert line.startswith(f"node_tuning_cmdline: {token} ")
    assert f"node_tuning_{name}" in line
    if name == "thp":
        sentences.check(SENTENCES, f"the site's token {token}", [line])
    assert token in deployed(tmp_path, **{"cmdline": [token], name: left})["steps"]["kernel_cmdline"]["tokens"]


STACK = "gpu_stack: {os: ubuntu-22.04, driver: '580', source: nvidia, keys: {nvidia: nvidia.asc}}\n"


def with_2204(folder: Path, text: str) -> str:
    (folder / "nvidia.asc").write_text(
        "-----BEGIN PGP PUBLIC KEY BLOCK-----\n\nabc\n-----END PGP PUBLIC KEY BLOCK-----\n"
    )
    return text + STACK


EVEN = (("{cores: 0-1, gpus: 0, nics: [mlx5_0], hugepages: {2M: 16}}", "{cores: 0-1, gpus: 0, nics: [mlx5_0], hugepages: {2M: 16}}"),
        ("hugepages: {2M: 8, 1G: 1}", "hugepages: {2M: 16}"))  # fmt: skip


def test_a_kernel_that_knows_no_numa_nodes_there_gets_the_total(tmp_path: Path) -> None:
    """Linux 5.15 of Ubuntu 22.04 reads `0:16` as 0."""
    text = FILE
    for old, new in EVEN:
        text = text.replace(old, new)
    node = deployed(tmp_path, with_2204(tmp_path, text))
    tokens = node["steps"]["kernel_cmdline"]["tokens"]
    assert tokens[1:4] == ["default_hugepagesz=2M", "hugepagesz=2M", "hugepages=32"]
    assert node["expected"]["settings"]["pending"] == tokens[1:4]
    # The unit takes the pages of each NUMA node all the same.
    assert [(one["node"], one["count"]) for one in node["expected"]["settings"]["pages"]] == [(0, 16), (1, 16)]


@pytest.mark.parametrize(
    ("first", "second"),
    [("{2M: 16}", "{2M: 8, 1G: 1}"), ("{2M: 16}", "{2M: 8}"), ("{2M: 16}", "{2M: 16, 1G: 1}")],
    ids=["both-sizes", "one-size", "one-of-two-sizes"],
)
def test_uneven_pages_are_left_to_the_unit_there(tmp_path: Path, first: str, second: str) -> None:
    text = FILE.replace("hugepages: {2M: 16}", f"hugepages: {first}").replace(
        "hugepages: {2M: 8, 1G: 1}", f"hugepages: {second}"
    )
    node = deployed(tmp_path, with_2204(tmp_path, text))
    assert node["expected"]["settings"]["pending"] == []
    assert not [token for token in node["steps"]["kernel_cmdline"]["tokens"] if "hugepages" in token]
    assert node["expected"]["settings"]["pages"]


def test_who_is_no_node_or_is_not_managed_gets_nothing(tmp_path: Path) -> None:
    assert deployed(tmp_path, host="ctl1") == {}
    assert deployed(tmp_path, manage=False) == {}


@pytest.mark.parametrize(
    ("cpus", "said"),
    [
        ("0-500", ["'0-500' has CPUs 4-500", "profiles.gpu has CPUs 0-3", "allowed: CPUs of the profile, but not all"]),
        ("2,4", ["'2,4' has CPUs 4,", "profiles.gpu has CPUs 0-3"]),
        ("0-3", ["'0-3' leaves the scheduler no CPU", "profiles.gpu has CPUs 0-3"]),
    ],
)
def test_isolated_cpus_are_cpus_of_the_profile_and_not_all(tmp_path: Path, cpus: str, said: list[str]) -> None:
    with pytest.raises(TuningError) as caught:
        deployed(tmp_path, isolated_cpus=cpus)
    (line,) = str(caught.value).splitlines()
    assert [text for text in said if text not in line] == []
    assert deployed(tmp_path, isolated_cpus="1-3")["expected"]["isolated"] == "1-3"
    # A host that is not a node has no profile.
    assert deployed(tmp_path, host="ctl1", isolated_cpus=cpus) == {}


def test_deploy_takes_the_files(tmp_path: Path) -> None:
    assert file_mistakes("node_tuning", deployed(tmp_path)["files"], []) == []


def test_all_mistakes_are_told_at_once(tmp_path: Path) -> None:
    with pytest.raises(TuningError) as caught:
        deployed(
            tmp_path, thp="allways", isolated_cpus="2-x", cmdline=["hugepages=3"], read_request=100,
            sysctl={
                "swappiness": 1, "vm.nr_hugepages": 10, "net.ipv4.conf.*.rp_filter": 2, "vm.panic_on_oom": "1 # c",
                "kernel.panic": "1\nkernel.sysrq = 1", "vm.oom_dump_tasks": True, "vm/dirty_bytes": 1, "vm.dirty_ratio": 1,
            },
            governor="fast", tuned="a b", idle_us="1ms", modules=["nvidia peermem", "a;b"], limits={"memlok": 1, "nofile": "unlimited"},
        )  # fmt: skip
    lines = str(caught.value).splitlines()
    assert [line.partition(":")[0] for line in lines] == [
        "node_tuning_thp", "node_tuning_governor", "node_tuning_read_request", "node_tuning_isolated_cpus", "node_tuning_cmdline",
        *["node_tuning_sysctl"] * 7, "node_tuning_idle_us", "node_tuning_tuned", *["node_tuning_modules"] * 2, *["node_tuning_limits"] * 2,
    ]  # fmt: skip
    sentences.check(SENTENCES, "mistakes in the variables of node_tuning", lines)


@pytest.mark.parametrize(
    ("choices", "values"),
    [
        ({"tuned": "False"}, ["node_tuning_tuned", "'False'", "off (in quotes)"]),
        ({"cmdline": ["pci=nocrs,use_crs", "quiet"]}, ["node_tuning_cmdline", "pci=nocrs and pci=use_crs"]),
        (
            {"cmdline": ["pci=realloc=off", "pci=realloc=on"]},
            ["node_tuning_cmdline", "pci=realloc=off and pci=realloc=on"],
        ),
    ],
)
def test_values_that_mean_something_else_are_refused(
    tmp_path: Path, choices: dict[str, object], values: list[str]
) -> None:
    with pytest.raises(TuningError) as caught:
        deployed(tmp_path, **choices)
    (line,) = str(caught.value).splitlines()
    assert [value for value in values if value not in line] == []


def test_an_option_of_pci_twice_is_no_contradiction(tmp_path: Path) -> None:
    assert deployed(tmp_path, cmdline=["pci=realloc,nocrs", "pci=realloc"])


SPEC = yaml.safe_load((Path(__file__).parents[3] / "roles/node_tuning/meta/argument_specs.yml").read_text())
LISTED = {name: option for name, option in SPEC["argument_specs"]["main"]["options"].items() if "choices" in option}


@pytest.mark.parametrize("name", LISTED)
def test_what_the_argument_spec_allows_is_allowed_and_nothing_else(tmp_path: Path, name: str) -> None:
    key = name.removeprefix("node_tuning_")
    for value in LISTED[name]["choices"]:
        assert deployed(tmp_path, **{key: value})
    with pytest.raises(TuningError) as caught:
        deployed(tmp_path, **{key: "other"})
    (line,) = str(caught.value).splitlines()
    assert line.startswith(f"{name}: 'other'; allowed: ")
    assert all(repr(value) in line for value in LISTED[name]["choices"])


@pytest.mark.parametrize(
    ("old", "new", "where", "values"),
    [
        ("    numa:\n", "    hugepages: {2M: 8}\n    numa:\n", ["hugepages"], ["`hugepages`"]),
        (
            "{2M: 8, 1G: 1}",
            "{2M: 8, 1G: 4}",
            ["numa[1].hugepages.2M", "numa[1].hugepages.1G"],
            ["2048 MiB", "2 NUMA nodes", "512 MiB"],
        ),
        ("1G: 1}", "4M: 1}", ["numa[1].hugepages.4M"], ["4M", "2M, 1G"]),
    ],
)
def test_pages_that_cannot_be_are_mistakes_of_the_file(
    tmp_path: Path, old: str, new: str, where: list[str], values: list[str]
) -> None:
    with pytest.raises(ClusterFileError) as caught:
        deployed(tmp_path, FILE.replace(old, new))
    found = caught.value.mistakes
    assert [one.where.removeprefix("profiles.gpu.") for one in found] == where
    assert [value for value in values for one in found if value not in one.message] == []
    sentences.check(SENTENCES, f"huge pages that cannot be: {where[0]}", [found[0].message])


def test_pages_that_the_numa_nodes_cannot_have_evenly_are_a_mistake(tmp_path: Path) -> None:
    text = FILE.replace(", hugepages: {2M: 16}", "").replace(", hugepages: {2M: 8, 1G: 1}", "")
    with pytest.raises(ClusterFileError) as caught:
        deployed(tmp_path, text.replace("    numa:\n", "    hugepages: {2M: 7}\n    numa:\n"))
    (mistake,) = caught.value.mistakes
    assert mistake.where == "profiles.gpu.hugepages.2M"
    assert re.findall(r"\b\d+\b", mistake.message) == ["7", "2", "6", "8"]
    sentences.check(SENTENCES, "huge pages that NUMA nodes cannot have evenly", [mistake.message])
