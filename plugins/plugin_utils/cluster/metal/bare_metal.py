# SPDX-License-Identifier: GPL-3.0-or-later
"""Bare metal: how machines are commanded, booted and installed, checked against the rest of the file."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from ipaddress import IPv4Address
from pathlib import Path as FilePath
from typing import Any

from ..model import Cluster, Host, Image, Network, Node, Profile, ProfileMetal, Provision, SystemDisk
from ..schema.fields import Mistakes, Path, allowed
from ..schema.metal_section import BIOS_FOLDER, FIRMWARE_FOLDER

_MANAGEMENT, _PROVISION = "management", "provision"


def metal_of(path: Path, data: Mapping[str, Any], mistakes: Mistakes) -> ProfileMetal:
    """Return the bare metal of a profile; `data` is the checked profile at `path`."""
    bmc, boot, disk = data["bmc"], data["boot"] or {}, data["system_disk"]
    found = ProfileMetal(
        has_bmc=bmc is not None,
        protocol=(bmc or {}).get("protocol") or "redfish",
        boot_firmware=boot.get("firmware") or "uefi",
        method=boot.get("method") or "media",
        secure_boot=boot.get("secure_boot"),
        system_disk=_system_disk((*path, "system_disk"), disk, mistakes) if disk else None,
        **{key: data[key] or "" for key in ("bios", "firmware", "image")},
    )
    _check_boot(found, boot, (*path, "boot"), mistakes)
    return found


def _check_boot(metal: ProfileMetal, boot: Mapping[str, Any], path: Path, mistakes: Mistakes) -> None:
    is_bios = metal.boot_firmware == "bios"
    if metal.secure_boot and is_bios:
        mistakes.add((*path, "secure_boot"), "true needs `firmware: uefi`, and `firmware` is bios.")
    if metal.method == "http" and is_bios:
        mistakes.add(
            (*path, "method"), "http needs `firmware: uefi`, and `firmware` is bios. Allowed with it: media, pxe."
        )
    # Without `method` nothing is installed over the BMC's media until an image is named, so only a stated one can be wrong.
    if metal.protocol == "ipmi" and (boot.get("method") or metal.image) and metal.method != "pxe":
        text = f"{metal.method} needs a BMC with Redfish, and `bmc.protocol` is ipmi. Allowed with it: pxe."
        mistakes.add((*path, "method"), text)


def _system_disk(path: Path, data: Mapping[str, Any], mistakes: Mistakes) -> SystemDisk:
    sizes = tuple(_ranges(data["size_gb"] or ""))
    for first, last in sizes:
        if first > last or not last:
            mistakes.add(
                (*path, "size_gb"), f"{first}-{last} has no size. Allowed: the smaller size first, such as 900-1000."
            )
    found = SystemDisk(sizes, data["bus"] or "", tuple(filter(None, data["models"])))
    # A key whose value is wrong is a mistake already.
    if not any((*path, key) in mistakes.lines for key in data):
        mistakes.add(path, "every disk is like that. State `size_gb`, `bus` or `models`.")
    return found


def _ranges(text: str) -> Iterator[tuple[int, int]]:
    """Yield the ranges of a text such as 900-1000,1920 in their order."""
    for part in filter(None, text.split(",")):
        first, _dash, last = part.partition("-")
        yield int(first), int(last or first)


def images_of(data: Mapping[str, Any], file: str) -> dict[str, Image]:
    """Return the images by name; an image that lacks a key is left out, which is a mistake already."""
    return {
        name: Image(name, _beside(one["file"], file), one["sha256"], one["os"])
        for name, one in data.items()
        if all(one[key] for key in ("file", "sha256", "os"))
    }


def provision_of(
    data: Mapping[str, Any] | None,
    machines: tuple[Mapping[str, Host], Mapping[str, Path]],
    networks: Mapping[str, Network],
    file: str,
    mistakes: Mistakes,
) -> Provision | None:
    """Return the section `provision`; None if the file lacks it, or lacks its host.

    `machines`: hosts by name, and where the file describes each machine.
    """
    if data is None or not data["host"]:
        return None
    name, bmc = data["host"], data["bmc"] or {}
    hosts, described = machines
    if name in described and name not in hosts:
        text = f"{name} is a node of a rack, which may itself be installed.{allowed(list(hosts))}"
        mistakes.add((_PROVISION, "host"), text)
    elif name not in hosts and ("hosts", name) not in mistakes.lines:
        mistakes.unknown((_PROVISION, "host"), "host", name, hosts)
    limits = {key: bmc[key] for key in ("at_once", "per_bmc", "timeout") if bmc.get(key)}
    address = _address(data["address"], networks, mistakes) or (hosts[name].address if name in hosts else "")
    return Provision(
        name, address, data["window_minutes"] or 120, **limits, ca=_beside(bmc["ca"], file) if bmc.get("ca") else ""
    )


def _address(text: str | None, networks: Mapping[str, Network], mistakes: Mistakes) -> str:
    """Return the address of the host in the network `provision`, "" without that network."""
    path: Path = (_PROVISION, "address")
    network = networks.get(_PROVISION)
    if network is None:
        # A network that is described but of no use is a mistake of its own.
        if text and ("networks", _PROVISION) not in mistakes.lines:
            mistakes.add(path, "there is no network `provision`. Describe it under `networks`, or remove this.")
        return ""
    if text is None:
        mistakes.add(
            (_PROVISION,), f"'address' is missing: the address of the host in the network `provision`, {network.cidr}."
        )
        return ""
    try:
        number = int(IPv4Address(text))
    except ValueError:
        mistakes.add(path, f"{text!r} is not an IPv4 address. Allowed: such as 10.20.1.11.")
        return ""
    if not network.first < number < network.last or number == network.gateway:
        what = "is the gateway of" if number == network.gateway else "is outside"
        mistakes.add(path, f"{text} {what} the network `provision`, {network.cidr}.")
    return text


def check_metal(cluster: Cluster, data: Mapping[str, Any], mistakes: Mistakes) -> None:
    """Note names of images and files that do not exist, and machines that cannot be installed."""
    for profile in cluster.profiles.values():
        _check_profile(profile, cluster, data, mistakes)
    for key, rack in data["racks"].items():
        for text, exception in rack["exceptions"].items():
            path: Path = ("racks", key, "exceptions", text, "image")
            _check_image(exception["image"], path, data, mistakes)
    _check_systems(cluster, mistakes)
    if cluster.provision:
        _check_places(cluster, mistakes)


def _check_profile(profile: Profile, cluster: Cluster, data: Mapping[str, Any], mistakes: Mistakes) -> None:
    path: Path = ("profiles", profile.name)
    metal = profile.metal
    if metal.has_bmc and ("networks", "bmc") not in mistakes.lines:
        mistakes.add((*path, "bmc"), "there is no network for BMCs. Describe the network `bmc` under `networks`.")
    for key, folder, name in (("bios", BIOS_FOLDER, metal.bios), ("firmware", FIRMWARE_FOLDER, metal.firmware)):
        file = FilePath(cluster.path).parent / folder / f"{name}.yml"
        if name and not file.is_file():
            known = sorted(one.stem for one in file.parent.glob("*.yml"))
            there = f" Or use another.{allowed(known)}" if known else ""
            mistakes.add((*path, key), f"{folder}/{name}.yml not found beside the cluster file. Write it.{there}")
    _check_image(metal.image, (*path, "image"), data, mistakes)


def _check_image(name: str | None, path: Path, data: Mapping[str, Any], mistakes: Mistakes) -> None:
    # An image that is described but of no use is a mistake of its own.
    if name and name not in data["images"] and ("images", name) not in mistakes.lines:
        mistakes.unknown(path, "image", name, data["images"])


def _check_systems(cluster: Cluster, mistakes: Mistakes) -> None:
    """Find profiles whose GPU software is for another operating system than an image of their nodes."""
    pairs = dict.fromkeys((node.profile.name, node.image) for node in cluster.nodes if node.image in cluster.images)
    for name, chosen in pairs:
        stack, image = cluster.profiles[name].gpu_stack, cluster.images[chosen]
        if stack and stack.os and stack.os != image.os:
            text = f"{image.os} is not the system of profile {name}, whose `gpu_stack.os` is {stack.os}. Use one system for both."
            mistakes.add(("images", chosen, "os"), text)


def _check_places(cluster: Cluster, mistakes: Mistakes) -> None:
    """Find the first node that would have no free address in the network `provision`."""
    network, management = cluster.networks.get(_PROVISION), cluster.networks.get(_MANAGEMENT)
    if network is None or management is None:
        return
    path: Path = ("networks", _PROVISION)
    if network.start != network.first + 1:
        mistakes.add((*path, "start"), "the places of nodes are set in `management`. Remove it.")
    never = {network.gateway: "the gateway's", network.last: "the broadcast address"}
    if cluster.provision and cluster.provision.address:
        never[int(IPv4Address(cluster.provision.address))] = f"that of {cluster.provision.host}, `provision.address`"
    for node in cluster.nodes:
        number = _number(network, management, node) if node.address else network.first
        if number > network.last or number in never:
            what = f"which is {never[number]}" if number in never else f"outside {network.cidr}"
            text = f"{node.name} would have {_text(number)} in {network.name}, {what}."
            mistakes.add(
                (*path, "cidr"), f"{text} Choose a larger network, or give the node another place in `management`."
            )
            return


def _number(network: Network, management: Network, node: Node) -> int:
    return network.first + int(IPv4Address(node.address)) - management.first


def _text(number: int) -> str:
    return str(IPv4Address(number))


def provision_address(cluster: Cluster, node: Node) -> str:
    """Return the address of a node while it is installed: its place in the network `provision`, else its usual one."""
    network = cluster.networks.get(_PROVISION) if cluster.provision else None
    return _text(_number(network, cluster.networks[_MANAGEMENT], node)) if network else node.address


def _beside(path: str, file: str) -> str:
    return str(FilePath(file).absolute().parent / path)
