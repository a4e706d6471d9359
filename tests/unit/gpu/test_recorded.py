"""The readers of nvidia-smi on output that was recorded on hardware (recorded/*.yml)."""

from __future__ import annotations

from pathlib import Path

import pytest
import yaml

from ansible_collections.bedplate.cluster.plugins.module_utils.gpu.devices import nvidia_smi
from ansible_collections.bedplate.cluster.plugins.module_utils.gpu_settings import smi_settings
from ansible_collections.bedplate.cluster.plugins.module_utils.report.smi_raw import without_secrets

RECORDED = Path(__file__).with_name("recorded")
H200 = yaml.safe_load((RECORDED / "h200.yml").read_text())


def test_facts_of_an_h200_without_a_fabric():
    read = nvidia_smi.parse(H200["facts"], nvidia_smi.FIELDS)
    assert (read.unread, read.lacking, read.troubles, read.failures) == ([], [], [], {})
    row = read.rows[H200["address"]]
    assert row == {
        "pci.bus_id": "00000000:00:06.0",
        "uuid": "GPU-00000000-0000-4000-8000-000000000001",
        "name": "NVIDIA H200",
        "persistence_mode": "Enabled",
        "mig.mode.current": "Disabled",
        "mig.mode.pending": "Disabled",
        "ecc.mode.current": "Enabled",
        "ecc.mode.pending": "Enabled",
        "fabric.state": None,
        "fabric.status": None,
    }


def test_a_field_that_this_driver_lacks_is_named():
    assert nvidia_smi.parse(H200["no_field"], ["pci.bus_id", "no.such.field"]).lacking == ["no.such.field"]


@pytest.mark.parametrize(("state", "clock"), [("idle", 345), ("load", 1440)])
def test_settings_of_an_h200(state: str, clock: int):
    (gpu,) = smi_settings.parse(H200["settings"][state])
    assert (gpu.address, gpu.failure, gpu.compute_mode) == (H200["address"], "", "default")
    assert [gpu.number(one) for one in (smi_settings.POWER, smi_settings.ENFORCED)] == [700, 700]
    assert (gpu.number(smi_settings.GRAPHICS), gpu.number(smi_settings.MEMORY)) == (clock, 3201)
    assert (gpu.switch(smi_settings.ECC), gpu.switch(smi_settings.ECC_PENDING)) == (True, True)


@pytest.mark.parametrize("name", ["q.txt", "q-load.txt"])
def test_nothing_that_names_a_machine_or_its_users_is_left_of_the_long_output(name: str):
    text = (RECORDED / "h200" / name).read_text()
    kept, serials = without_secrets(text)
    assert serials == ["1650000000000"]
    assert not [one for one in ("1650000000000", "GPU-0000", "0x0000000000000001", "python3", "737") if one in kept]
    # The settings behind the processes are kept.
    assert kept.rstrip().endswith("EGM                                            : disabled")
