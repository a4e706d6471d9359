# SPDX-License-Identifier: GPL-3.0-or-later
"""Build the cluster from checked data, and check decisions of several keys on the way."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

from .addresses import networks_of
from .fabric_checks import fabrics_of
from .gpu_stack_checks import with_gpu_stacks, with_settings
from .health_checks import check_health, health_of, monitoring_of
from .metal.bare_metal import check_metal, images_of, provision_of
from .mig_split import with_mig
from .model import Cluster, names_slurmdbd
from .name_clashes import check_names
from .needed_options import check_needed
from .package_access import package_access_of
from .profiles import profiles_of
from .rack_layout import Floor
from .rails import with_rails
from .schema.fabric_keys import StatedFabric, stated_fabrics
from .schema.fields import Mistakes
from .services import Selecting, partitions_of, services_of
from .slurm_checks import check_options, slurm_of
from .slurm_packaging import with_packaging
from .snapshot_checks import snapshots_of

_CONSTRUCTED = ("groups", "keyed_groups", "compose")


def build(path: str, data: dict[str, Any], mistakes: Mistakes) -> Cluster:
    """Return the cluster; with any mistake, it is only good for finding more of them."""
    networks = networks_of(data["networks"], mistakes)
    sections = stated_fabrics(data, mistakes)
    rails = {name: section["rails"] if section else None for name, (_stated, section) in sections.items()}
    profiles = with_gpu_stacks(profiles_of(data["profiles"], rails, mistakes), data, path, mistakes)
    profiles = with_settings(with_mig(profiles, data, mistakes), data, mistakes)
    floor = Floor(networks, profiles, mistakes, list(sections))
    floor.build(data["hosts"], data["racks"])
    networks = with_rails(networks, data["networks"], profiles, floor.nodes, mistakes)
    services = services_of(data["services"], floor, mistakes)
    of_site = names_slurmdbd((data["slurm"] or {}).get("options") or {})
    # Without services at all, that is the mistake.
    slurm = slurm_of(data["slurm"], bool(services.database) or of_site or not data["services"], mistakes, path)
    slurm = with_packaging(slurm, data["slurm"], services, profiles, path, mistakes)
    check_options(slurm, data["partitions"], profiles, bool(services.database), mistakes)
    health = health_of(data["health"], mistakes)
    check_health(health, slurm, profiles, mistakes)
    partitions = partitions_of(data["partitions"], floor, profiles, mistakes)
    fabrics = fabrics_of(sections, floor, Selecting(floor, profiles, mistakes, partitions), services, mistakes)
    managers = dict.fromkeys(name for one in fabrics.values() for name in one.subnet_managers)
    first = next(iter(fabrics.values()), None)
    cluster = Cluster(
        path=path,
        site=data["site"] or "",
        name=data["cluster"] or "",
        domain=data["domain"],
        networks=networks,
        profiles=profiles,
        racks=floor.racks,
        nodes=floor.nodes,
        hosts=floor.hosts,
        services=replace(services, subnet_managers=tuple(managers)) if fabrics else services,
        partitions=partitions,
        slurm=slurm,
        fabric=first.fabric if first else None,
        package_access=package_access_of(data["package_access"], profiles, path, mistakes),
        snapshots=snapshots_of(data["snapshots"], floor, path, mistakes),
        health=health,
        monitoring=monitoring_of(data["monitoring"], floor, slurm, health, mistakes),
        images=images_of(data["images"], path),
        provision=provision_of(data["provision"], (floor.hosts, floor.owner), networks, path, mistakes),
        constructed=any(data[key] for key in _CONSTRUCTED),
        fabrics=fabrics,
        stated=first.stated if first else StatedFabric(),
    )
    check_names(cluster, mistakes)
    check_needed(cluster, mistakes)
    check_metal(cluster, data, mistakes)
    return cluster
