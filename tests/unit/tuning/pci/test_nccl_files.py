"""NCCL's topology file and its settings."""

from __future__ import annotations

import re
from dataclasses import replace
from pathlib import Path
from xml.etree import ElementTree as Xml

import pytest

from ansible_collections.bedplate.cluster.plugins.module_utils.tuning.pci.nccl_files import (
    checked,
    settings,
    topology,
)
from ansible_collections.bedplate.cluster.plugins.module_utils.tuning.pci.topology_model import Processor
from ansible_collections.bedplate.cluster.plugins.plugin_utils.parts.part_files import rendered_template
from tests.kit import sentences
from tests.unit.tuning.conftest import Machines
from tests.unit.tuning.trees import MACHINES

SENTENCES = Path(__file__).parents[1] / "sentences.txt"

XEON = """\
<!-- Written by bedplate: changes are lost. -->
<system version="1">
  <cpu numaid="0" affinity="55555555,55555555,55555555,55555555" arch="x86_64" vendor="GenuineIntel" familyid="6" modelid="106">
    <pci busid="0000:17:00.0" class="0x030200" link_speed="16.0 GT/s PCIe" link_width="16"/>
  </cpu>
  <cpu numaid="1" affinity="aaaaaaaa,aaaaaaaa,aaaaaaaa,aaaaaaaa" arch="x86_64" vendor="GenuineIntel" familyid="6" modelid="106">
    <pci busid="0000:98:00.0" class="0x020700" link_speed="16.0 GT/s PCIe" link_width="16"/>
    <pci busid="0000:ca:00.0" class="0x030200" link_speed="16.0 GT/s PCIe" link_width="16"/>
  </cpu>
</system>
"""


def under(text: str, numaid: str) -> dict[str, list[str]]:
    """Return the devices below each address at a node; those without a switch are below ""."""
    found: dict[str, list[str]] = {}
    for first in Xml.fromstring(text).findall(f"cpu[@numaid='{numaid}']/pci"):
        ends = [pci.attrib["busid"] for pci in first.findall("pci")]
        if ends:
            found[first.attrib["busid"]] = ends
        else:
            found.setdefault("", []).append(first.attrib["busid"])
    return found


def test_the_file_is_as_nccl_reads_it(machine_of: Machines) -> None:
    assert topology(machine_of("xeon-interleaved")) == XEON


@pytest.mark.parametrize("name", MACHINES)
def test_each_gpu_and_nic_is_there_once_and_the_bounds_of_the_parser_are_kept(machine_of: Machines, name: str) -> None:
    machine = machine_of(name)
    text = topology(machine)
    # NCCL's parser knows no declaration, no entities, no tabs; an element has at most 16 attributes.
    assert re.match(r"<!-- .* -->\n<system version=\"1\">\n", text)
    assert not re.search(r"<\?|&|\t", text)
    system = Xml.fromstring(text)
    assert {element.tag for element in system.iter()} == {"system", "cpu", "pci"}
    assert all(len(element.attrib) <= 16 for element in system.iter())
    assert all(len(value) < 255 for element in system.iter() for value in element.attrib.values())
    for pci in system.iter("pci"):
        assert re.fullmatch(r"[0-9a-f]{4}:[0-9a-f]{2}:[0-9a-f]{2}\.[0-7]", pci.attrib["busid"])
        assert pci.attrib["class"][:4] in ("0x03", "0x02", "0x06")
        assert (pci.attrib["class"] == "0x060400") == (len(pci) > 0)
    ends = [pci.attrib["busid"] for pci in system.iter("pci") if not len(pci)]
    nics = [nic.address for nic in machine.nics if nic.rdma]
    assert sorted(ends) == sorted([*(gpu.address for gpu in machine.gpus), *nics])


def test_what_shares_a_switch_is_below_its_upstream_port(machine_of: Machines) -> None:
    text = topology(machine_of("a100-hgx"))
    assert under(text, "3") == {"0000:01:00.0": ["0000:07:00.0", "0000:0c:00.0", "0000:0f:00.0", "0000:12:00.0"]}
    assert under(text, "0") == {"": ["0000:61:00.0"]}
    assert under(text, "2") == {}


def test_other_pci_domains_and_nodes_without_cpus(machine_of: Machines) -> None:
    text = topology(machine_of("gb200-tray"))
    assert under(text, "1") == {
        "0010:01:00.0": ["0010:03:00.0"],
        "0012:01:00.0": ["0012:03:00.0"],
        "": ["0018:01:00.0", "0019:01:00.0"],
    }
    cpus = Xml.fromstring(text).findall("cpu")
    assert [cpu.attrib for cpu in cpus] == [
        {"numaid": "0", "affinity": "00000000,00000000,000000ff,ffffffff,ffffffff", "arch": "arm64"},
        {"numaid": "1", "affinity": "0000ffff,ffffffff,ffffff00,00000000,00000000", "arch": "arm64"},
    ]


def test_only_nics_that_are_named_are_in_it(machine_of: Machines) -> None:
    text = topology(machine_of("b200-hgx"), ["mlx5_4", "ibs7"])
    found = [pci.attrib["busid"] for pci in Xml.fromstring(text).iter("pci") if pci.attrib["class"] == "0x020700"]
    assert found == ["0000:18:00.0", "0000:dc:00.0"]


def test_what_is_not_known_is_not_there(machine_of: Machines) -> None:
    machine = machine_of("xeon-interleaved")
    lost = replace(machine.gpus[0], numa_node=None)
    text = topology(replace(machine, gpus=(lost,), processor=Processor()))
    assert "0000:17:00.0" not in text
    [cpu] = Xml.fromstring(text).findall("cpu")
    assert cpu.attrib == {"numaid": "1", "affinity": "aaaaaaaa,aaaaaaaa,aaaaaaaa,aaaaaaaa"}
    assert topology(replace(machine, gpus=(lost,), nics=())) == ""


def test_an_x86_cpu_without_family_and_model_is_left_to_nccl_for_it_wants_both(machine_of: Machines) -> None:
    machine = replace(machine_of("xeon-interleaved"), processor=Processor("x86_64", "GenuineIntel", 6, None))
    assert {cpu.get("vendor") for cpu in Xml.fromstring(topology(machine)).findall("cpu")} == {None}


def test_a_mask_that_nccl_could_not_take_is_left_to_it(machine_of: Machines) -> None:
    machine = machine_of("xeon-interleaved")
    wide = replace(machine.nodes[1], cpus=(1, 1023))
    assert "affinity" not in topology(replace(machine, nodes=(machine.nodes[0], wide)))


def test_settings_are_those_that_are_known() -> None:
    assert settings() == {}
    assert settings(
        ["mlx5_0", "mlx5_1"], "/etc/nccl-topology.xml", 106, ["eno1"], {"NCCL_IB_QPS_PER_CONNECTION": 4}
    ) == {
        "NCCL_IB_HCA": "=mlx5_0,mlx5_1",
        "NCCL_IB_TC": "106",
        "NCCL_SOCKET_IFNAME": "=eno1",
        "NCCL_TOPO_FILE": "/etc/nccl-topology.xml",
        "NCCL_IB_QPS_PER_CONNECTION": "4",
    }


def test_the_file_of_settings_has_one_a_line() -> None:
    text = rendered_template("rdma", "nccl.conf.j2", {"item": checked(settings(["mlx5_0"], traffic_class=106))})
    assert text == "# Written by bedplate: changes are lost.\nNCCL_IB_HCA==mlx5_0\nNCCL_IB_TC=106\n"


@pytest.mark.parametrize(("key", "value"), [("A", "1\n2"), ("A=B", "1"), ("A", "x" * 1024)])
def test_what_nccl_could_not_read_back_is_refused(key: str, value: str) -> None:
    with pytest.raises(ValueError, match=f"^{key}.*1023 ") as caught:
        checked({key: value})
    if value == "1\n2":
        sentences.check(SENTENCES, "a setting that NCCL could not read back", [caught.value])
