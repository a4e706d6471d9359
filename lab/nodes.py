# SPDX-License-Identifier: GPL-3.0-or-later
"""Making the containers of a lab, and removing them."""

from __future__ import annotations

import hashlib
import io
import ipaddress
import os
import shutil
import tarfile
from collections.abc import Mapping
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

from lab import archives, host, image, ssh
from lab.machines import DEFAULT_RELEASE, Machine, Plan
from lab.paths import ROOT, STATE, one_at_a_time, ssh_config_of, state_of
from lab.podman import LABEL, Container, Podman
from lab.shell import LabError, say

AT_ONCE = 4
"""Containers that are started at the same time."""
SHARED = "/srv/vendor"
SERVER = "lab-vendor.service"
"""Gives what is in SHARED to the other machines."""
STATE_FOLDER = "slurm-state"
"""Holds, in the folder of a lab, the StateSaveLocation that its controllers share."""
SLURM_UID = 64030
"""User slurm on every Debian: the folder is there before the package that makes the user."""


def network_name(lab: str) -> str:
    """Return the podman network of a lab."""
    return f"bedplate-{lab}"


def container_name(lab: str, machine: str) -> str:
    """Return the container of a machine."""
    return f"bedplate-{lab}-{machine}"


def spec(machine: Machine) -> str:
    """Return what decides whether a running container is still the machine of the cluster file."""
    words = [machine.name, machine.address, str(machine.gpus)]
    if machine.release != DEFAULT_RELEASE:
        words.append(machine.release)
    if machine.compiles:
        words.append("compiler" if machine.compiler else "compiles")
    if machine.shared:
        words += [machine.shared, str(machine.serves)]
    if machine.state:
        words.append(machine.state)
    return hashlib.sha256(" ".join(words).encode()).hexdigest()[:12]


def create(podman: Podman, lab: str, plan: Plan) -> bool:
    """Create, start and remove containers of a lab as planned; return True if one changed."""
    existing = {container.machine: container for container in podman.containers(lab)}
    _refuse_foreign(existing, lab)
    wanted = {machine.name: machine for machine in plan.machines}
    stale = [c for c in existing.values() if c.machine not in wanted or c.spec != spec(wanted[c.machine])]
    for container in stale:
        reason = "changed in" if container.machine in wanted else "no longer in"
        say("nodes", f"removing {container.machine}: {reason} the cluster file")
        podman("rm", "--force", "--time", "0", container.id)
        del existing[container.machine]
    _ensure_network(podman, lab, plan.subnet, in_use=bool(existing))
    key = ssh.public_key(lab)
    new = [machine for machine in plan.machines if machine.name not in existing]
    stopped = [
        machine.name for machine in plan.machines if machine.name in existing and not existing[machine.name].running
    ]
    if new:
        # Before several nodes want the same. Another process may want it, too.
        with one_at_a_time():
            images = {release: image.ensure(podman, release) for release in sorted({one.release for one in new})}
            for release in sorted({one.release for one in new if one.compiles}):
                archives.ensure(podman, release)
            ready = {one.release: archives.installed(podman, one.release) for one in new if one.compiler}
        with ThreadPoolExecutor(AT_ONCE) as pool:
            list(
                pool.map(
                    lambda one: _boot(podman, lab, one, (ready if one.compiler else images)[one.release], key), new
                )
            )
    for name in stopped:
        podman("start", container_name(lab, name))
    changed = bool(new or stopped or stale)
    if changed or not ssh_config_of(lab).exists():
        names = {machine.name: container_name(lab, machine.name) for machine in plan.machines}
        ssh.write_config(lab, plan.machines, podman, names)
    ssh.wait(lab, plan.machines)
    say("nodes", f"{_count(len(plan.machines), 'node')} on {plan.subnet}: {len(new)} created, {len(stopped)} started")
    return changed


def destroy(podman: Podman, lab: str) -> bool:
    """Remove a lab: its containers, its network, its keys and secrets. Return whether there was anything."""
    containers = podman.containers(lab)
    _refuse_foreign({container.machine: container for container in containers}, lab)
    if containers:
        podman("rm", "--force", "--time", "0", "--volumes", *(container.id for container in containers))
    networks = podman.networks(lab)
    for network in networks:
        podman("network", "rm", "--force", network)
    state = state_of(lab)
    had_state = state.exists()
    shutil.rmtree(state, ignore_errors=True)
    for parent in (STATE, STATE.parent):
        if parent.is_dir() and not any(parent.iterdir()):
            parent.rmdir()
    return bool(containers or networks or had_state)


def labs_here(podman: Podman) -> list[str]:
    """Return the labs of this checkout, running or half made."""
    running = {container.lab for container in podman.containers() if not _foreign(container)}
    left = {path.name for path in STATE.iterdir() if path.is_dir()} if STATE.is_dir() else set()
    return sorted(running | left)


def _boot(podman: Podman, lab: str, machine: Machine, reference: str, key: str) -> None:
    name = container_name(lab, machine.name)
    labels = {
        LABEL: lab,
        f"{LABEL}.machine": machine.name,
        f"{LABEL}.spec": spec(machine),
        f"{LABEL}.checkout": str(ROOT),
    }
    volumes, links = {}, {}
    if machine.shared:
        volumes[machine.shared] = SHARED
    if machine.compiles and not machine.compiler:
        debian = archives.ensure(podman, machine.release)
        volumes[str(debian)] = archives.PLACE
        links = archives.links(debian)
    mounts = [f"--volume={there}:{here}:ro" for there, here in volumes.items()]
    if machine.state:
        mounts.append(f"--volume={_state_folder(lab)}:{machine.state}")
    podman(
        "create",
        "--name",
        name,
        "--hostname",
        machine.name,
        "--network",
        network_name(lab),
        "--ip",
        machine.address,
        # /etc/hosts must be an ordinary file, which a role can replace as on a real node.
        "--no-hosts",
        *(f"--label={label}={value}" for label, value in labels.items()),
        *mounts,
        *podman.choice.run,
        reference,
        why=f"podman could not make the container of {machine.name}.",
    )
    podman("cp", "-", f"{name}:/", stdin=_first_boot_files(machine, key, links))
    podman("start", name, why=f"podman could not start {machine.name}. Containers are run so: {podman.choice.reasons}")


def _state_folder(lab: str) -> Path:
    """Make the folder that controllers share, as a site would before its first run; it is removed with the lab."""
    folder = state_of(lab) / STATE_FOLDER
    folder.mkdir(parents=True, exist_ok=True)
    os.chown(folder, SLURM_UID, SLURM_UID)
    return folder


def _first_boot_files(machine: Machine, key: str, links: Mapping[str, str]) -> bytes:
    """Pack what makes this container this machine, and links: path -> where it leads."""
    files = [("root/.ssh/authorized_keys", key, 0o600), ("etc/lab-gpus", f"{machine.gpus}\n", 0o644)]
    if machine.serves:
        unit = f"etc/systemd/system/{SERVER}"
        files.append((unit, (Path(__file__).parent / "node" / SERVER).read_text(), 0o644))
        links = {**links, f"etc/systemd/system/multi-user.target.wants/{SERVER}": f"/{unit}"}
    buffer = io.BytesIO()
    with tarfile.open(fileobj=buffer, mode="w") as archive:
        folder = tarfile.TarInfo("root/.ssh")
        folder.type, folder.mode = tarfile.DIRTYPE, 0o700
        archive.addfile(folder)
        for path, text, mode in files:
            entry = tarfile.TarInfo(path)
            entry.size, entry.mode = len(text.encode()), mode
            archive.addfile(entry, io.BytesIO(text.encode()))
        for path, target in links.items():
            entry = tarfile.TarInfo(path)
            entry.type, entry.linkname = tarfile.SYMTYPE, target
            archive.addfile(entry)
    return buffer.getvalue()


def _ensure_network(podman: Podman, lab: str, subnet: ipaddress.IPv4Network, in_use: bool) -> None:
    """Make the network of a lab, unless it exists; refuse to take over a route of this machine."""
    name = network_name(lab)
    present = podman.network(name)
    own = str(present.get("network_interface", "")) if present else ""
    if present and [entry["subnet"] for entry in present.get("subnets", [])] != [str(subnet)]:
        if in_use:
            raise LabError(
                f"The network in the cluster file is now {subnet}, but nodes run in another. Run `make lab-down` first."
            )
        podman("network", "rm", "--force", name)
        present = None
    if route := host.clash(subnet, Path("/proc/net/route").read_text(), own):
        raise LabError(
            f"The lab's network {subnet} overlaps a route of this machine: {route}.\n"
            "Choose another network in the cluster file, or remove what owns that route: "
            "`ip route` and `podman network ls` show it."
        )
    if present is None:
        # Without podman's DNS: nodes find each other as on a real network, by what the roles configure.
        podman(
            "network",
            "create",
            "--disable-dns",
            "--subnet",
            str(subnet),
            "--label",
            f"{LABEL}={lab}",
            name,
            why="podman could not make the lab's network.",
        )


def _foreign(container: Container) -> bool:
    """Return True if a container belongs to another checkout that still exists."""
    return container.checkout != str(ROOT) and Path(container.checkout).exists()


def _refuse_foreign(existing: dict[str, Container], lab: str) -> None:
    for container in existing.values():
        if _foreign(container):
            raise LabError(
                f"The lab `{lab}` on this machine belongs to another checkout: {container.checkout}.\n"
                f"First remove it: cd {container.checkout} && make lab-down"
            )


def _count(number: int, noun: str) -> str:
    return f"{number} {noun}" if number == 1 else f"{number} {noun}s"
