# SPDX-License-Identifier: GPL-3.0-or-later
"""The lab's fabric: simulated with ibsim after the plan, discovered by the real ibnetdiscover, compared, and made into Slurm's topology."""

from __future__ import annotations

import json
import os
import sys
import tempfile
from pathlib import Path

from lab.paths import ROOT
from lab.shell import LabError, say, stream

DISCOVERER = "ibnetdiscover"
TOOLS = ("ibsim", "ibsim-run", DISCOVERER)


def discover(cluster_file: Path, directory: Path) -> list[Path]:
    """Write the output of ibnetdiscover for each plane to files in a directory, and return them."""
    sys.path.insert(0, str(ROOT / "collections"))
    from ansible_collections.bedplate.cluster.plugins.plugin_utils.cluster import load
    from ansible_collections.bedplate.cluster.plugins.plugin_utils.fabric.opensm.plane_files import directory as name_of
    from ansible_collections.bedplate.cluster.plugins.plugin_utils.fabric.plan.checked_plan import planned
    from ansible_collections.bedplate.cluster.plugins.plugin_utils.fabric.simulate import simulated_fabric

    directory.mkdir(parents=True, exist_ok=True)
    try:
        plan = simulated_fabric.simulated_plan(planned(load(str(cluster_file)).view()).plan)
        found = []
        for plane in plan.planes:
            start = next(hca.name for hca in plan.hcas.values() if hca.plane == plane)
            with (
                tempfile.TemporaryDirectory(prefix="bedplate-fabric-") as scratch,
                simulated_fabric.simulated(plan, Path(scratch), plane, start, tools=TOOLS) as simulated,
            ):
                path = directory / f"{name_of(plane)}.txt"
                path.write_text(simulated.run(DISCOVERER))
                found.append(path)
    except (ValueError, simulated_fabric.SimulationError) as problem:
        raise LabError(f"The fabric of {cluster_file} cannot be simulated: {problem}") from None
    say("fabric", f"{DISCOVERER} on ibsim: {len(plan.switches)} switches, {len(plan.hcas)} HCAs")
    return found


def discover_topology(inventory: Path, cluster_file: Path, directory: Path) -> None:
    """Compare the simulated fabric with the plan, and write Slurm's topology.conf of what was discovered."""
    saved = ",".join(map(str, discover(cluster_file, directory)))
    log = directory / "fabric.log"
    playbooks = [str(ROOT / "playbooks" / name) for name in ("fabric_compare.yml", "fabric_topology.yml")]
    variables = ["-e", f"fabric_saved={saved}", "-e", f"fabric_directory={directory}"]
    if stream(["ansible-playbook", "-i", str(inventory), *playbooks, *variables], log=log, quiet=True):
        raise LabError(
            f"the fabric is not as planned, or not understood; the reason is in {log}:\n{log.read_text()[-2000:]}"
        )
    told = json.loads((directory / "comparison" / "findings.json").read_text())
    page = directory / "comparison" / "fabric.html"
    say(
        "fabric",
        f"{told['ok']} of {told['planned']} planned cables are as planned (picture: {os.path.relpath(page, ROOT)})",
    )
