"""Every toolkit and NCCL of the table has a stand-in, whichever GPUs take it."""

from __future__ import annotations

import pytest

from lab.vendor import found


@pytest.mark.parametrize("system", ["debian-13", "ubuntu-24.04"])
def test_every_toolkit_and_nccl_of_the_table_has_a_stand_in(system: str) -> None:
    table = found.table_with([], [system])
    made = {(one.name, one.version) for one in found.packages(system, ["580.65.06", "610.57.04"], table)}
    built = {version for by_major in table.nccl.versions.values() for version in by_major.values()}
    assert built <= {version for name, version in made if name == "libnccl2"}
    offer = table.cuda_of(system, found.SOURCE)
    assert offer is not None
    names = {f"cuda-toolkit-{version.replace('.', '-')}" for version in offer.versions}
    assert names <= {name for name, _version in made}
