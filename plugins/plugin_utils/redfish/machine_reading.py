# SPDX-License-Identifier: GPL-3.0-or-later
"""Read a BMC's resources as one machine.

The system is required. Other resources are optional: a BMC that fails to show one is still a machine, and `Machine.unread` has the reason.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterator
from dataclasses import replace
from typing import TypeVar

from .client import Answer, Client
from .errors import MISSING, NOT_JSON, OTHER, STOPPED, TIMEOUT, UNREACHABLE, UNSUPPORTED, BmcError
from .fields import Resource, flag, link, links, number, part, parts, text, texts
from .machine import Boot, Drive, Machine, Manager, Nic, Reset, Slot, System, plain_mac
from .resources.dialects import Dialect

NICS, DRIVES, SLOTS, MANAGER, PENDING = "nics", "drives", "slots", "manager", "pending"
ALL = frozenset({NICS, DRIVES, SLOTS, MANAGER, PENDING})
_MOST_SYSTEMS, _MOST_PAGES, _MOST_MEMBERS = 16, 50, 512
_FATAL = (UNREACHABLE, TIMEOUT, STOPPED)
T = TypeVar("T")
STANDARD = Dialect()


def read_machine(
    client: Client, *, serial: str = "", only: Collection[str] = ALL, dialect: Dialect = STANDARD
) -> Machine:
    """Return the machine. `serial` is the declared one: it decides between several systems that can boot. `only` names optional parts.

    `dialect` decides where Boot is written, and which slots are commanded (resources/dialects.py).
    Raises BmcError: kind unsupported if no system can be chosen.
    """
    root = client.root or client.get("/redfish/v1/")
    reader = _Reader(client, root)
    path = link(root.body, "Systems")
    if not path:
        raise client.error(UNSUPPORTED, "no Systems in ServiceRoot", "Use IPMI for this node.", path=root.path)
    paths = [one for page in reader.pages(path) for one in links(page.body, "Members")][:_MOST_SYSTEMS]
    systems = [system_of(client.get(one)) for one in paths]
    system = _chosen(client, systems, serial, path)
    system = reader.with_reset_types(system)
    if dialect.boot_written_at == "sd":
        system = replace(system, settings_path=f"{system.path.rstrip('/')}/SD")
    pending = (
        reader.optional(system.settings_path, lambda: client.find(system.settings_path)) if PENDING in only else None
    )
    slots = tuple(one for one in reader.slots(system) if _is_used(one, dialect)) if SLOTS in only else ()
    return Machine(
        client.bmc.node,
        system,
        text(root.body, "Vendor"),
        text(root.body, "Product"),
        text(root.body, "RedfishVersion"),
        tuple(reader.nics(system)) if NICS in only else (),
        tuple(reader.drives(system)) if DRIVES in only else (),
        slots,
        reader.manager(system) if MANAGER in only else None,
        boot_of(pending.body) if pending else None,
        pending.etag if pending else "",
        "" if system.serial else reader.chassis_serial(system),
        tuple(one.path for one in systems if one.path != system.path),
        tuple(reader.unread.items()),
        dialect.cd_target,
        float(dialect.media_settle),
    )


def _is_used(slot: Slot, dialect: Dialect) -> bool:
    is_named = not dialect.media_slot or slot.name == dialect.media_slot
    return is_named and (dialect.media_slots != "with_insert" or bool(slot.insert_path))


def read_system(client: Client, system: System) -> System:
    """Return the system as it is now; reset types are kept."""
    found = system_of(client.get(system.path))
    if found.reset and system.reset and not found.reset.types:
        return replace(found, reset=system.reset)
    return found


def system_of(answer: Answer) -> System:
    """Return a ComputerSystem from its resource. Reset types in an ActionInfo are not read."""
    body = answer.body
    action = part(body, "Actions", "#ComputerSystem.Reset")
    target = text(action, "target")
    return System(
        text(body, "@odata.id") or answer.path,
        answer.etag,
        text(body, "Id"),
        text(body, "SerialNumber"),
        text(body, "SKU"),
        text(body, "UUID"),
        text(body, "Manufacturer"),
        text(body, "Model"),
        text(body, "PowerState"),
        text(body, "BiosVersion"),
        boot_of(body),
        Reset(target, texts(action, "ResetType@Redfish.AllowableValues"), text(action, "@Redfish.ActionInfo"))
        if target
        else None,
        text(body, "LastResetTime"),
        link(body, "@Redfish.Settings", "SettingsObject"),
        link(body, "Bios"),
        link(body, "EthernetInterfaces"),
        link(body, "Storage"),
        link(body, "VirtualMedia"),
        links(body, "Links", "ManagedBy"),
        links(body, "Links", "Chassis"),
    )


def boot_of(body: Resource) -> Boot | None:
    """Return the boot override of a system or of its settings object, None without one."""
    boot = part(body, "Boot")
    if not any(key.startswith("BootSourceOverride") for key in boot):
        return None
    return Boot(
        text(boot, "BootSourceOverrideEnabled"),
        text(boot, "BootSourceOverrideTarget"),
        text(boot, "BootSourceOverrideMode"),
        text(boot, "HttpBootUri"),
        texts(boot, "BootSourceOverrideTarget@Redfish.AllowableValues"),
        texts(boot, "BootSourceOverrideMode@Redfish.AllowableValues"),
        "HttpBootUri" in boot,
        "BootSourceOverrideMode" in boot,
    )


def slot_of(answer_or_body: Answer | Resource, path: str = "") -> Slot:
    """Return a slot of virtual media from its resource."""
    body = answer_or_body.body if isinstance(answer_or_body, Answer) else answer_or_body
    etag = answer_or_body.etag if isinstance(answer_or_body, Answer) else text(body, "@odata.etag")
    inserted = flag(body, "Inserted")
    image = text(body, "Image")
    return Slot(
        text(body, "@odata.id") or path,
        etag,
        text(body, "Id"),
        texts(body, "MediaTypes"),
        image,
        text(body, "ImageName"),
        bool(image) if inserted is None else inserted,
        text(body, "Actions", "#VirtualMedia.InsertMedia", "target"),
        text(body, "Actions", "#VirtualMedia.EjectMedia", "target"),
        flag(body, "VerifyCertificate"),
    )


def _chosen(client: Client, systems: list[System], serial: str, path: str) -> System:
    """Return the system that boots: the one with Boot and a reset action, of several the one with the declared serial number."""
    able = [one for one in systems if one.boot and one.reset] or (systems if len(systems) == 1 else [])
    declared = [one for one in able if one.is_serial(serial)]
    if len(able) == 1 or len(declared) == 1:
        return (declared if len(declared) == 1 else able)[0]
    names = ", ".join(one.path.rpartition("/")[2] for one in able)
    what = f"several systems can boot: {names}" if able else "no system has a boot override and a reset action"
    remedy = "Record the serial number of the machine." if able else "Use IPMI for this node."
    raise client.error(UNSUPPORTED, what, remedy, path=path)


class _Reader:
    """Reads optional resources; `unread` is path -> reason."""

    def __init__(self, client: Client, root: Answer) -> None:
        self.client = client
        self.unread: dict[str, str] = {}
        features = part(root.body, "ProtocolFeaturesSupported", "ExpandQuery")
        self._query = "?$expand=.($levels=1)" if flag(features, "NoLinks") and flag(features, "Levels") else ""

    def optional(self, path: str, read: Callable[[], T | None]) -> T | None:
        """Return what a read returns; None, with the reason in `unread`, if the BMC fails to answer it."""
        if not path:
            return None
        try:
            return read()
        except BmcError as error:
            if error.kind in _FATAL:
                raise
            self.unread[path] = f"{error.kind}: {error.what}"
            return None

    def pages(self, path: str, query: str = "") -> Iterator[Answer]:
        """Yield the pages of a collection."""
        answer = self.client.get(path + query)
        for _page in range(_MOST_PAGES):
            yield answer
            following = text(answer.body, "Members@odata.nextLink")
            if not following:
                return
            answer = self.client.get(following)

    def members(self, path: str) -> Iterator[Resource]:
        """Yield the members of an optional collection, in one request if the BMC expands collections."""
        for one in (self.optional(path, lambda: self._entries(path)) or ())[:_MOST_MEMBERS]:
            at = text(one, "@odata.id")
            if set(one) <= {"@odata.id", "@odata.type", "@odata.etag", "title"}:
                found = self.resource(at)
                if found:
                    yield found
            else:
                yield one

    def _entries(self, path: str) -> list[Resource]:
        if self._query:
            try:
                return [one for page in self.pages(path, self._query) for one in parts(page.body, "Members")]
            except BmcError as error:
                if error.kind not in (OTHER, MISSING, NOT_JSON):
                    raise
                self._query = ""
        try:
            return [one for page in self.pages(path) for one in parts(page.body, "Members")]
        except BmcError as error:
            if error.kind != MISSING:
                raise
            return []

    def resource(self, path: str) -> Resource | None:
        """Return an optional resource."""
        found = self.optional(path, lambda: self.client.find(path))
        return found.body if found else None

    def with_reset_types(self, system: System) -> System:
        """Return the system with the reset types of its ActionInfo, if its action does not list them."""
        if not system.reset or system.reset.types:
            return system
        info = self.resource(system.reset.info_path) or {}
        types = next(
            (texts(one, "AllowableValues") for one in parts(info, "Parameters") if text(one, "Name") == "ResetType"), ()
        )
        return replace(system, reset=replace(system.reset, types=types))

    def nics(self, system: System) -> Iterator[Nic]:
        """Yield the NICs of the system; if it shows none, the network functions of its chassis."""
        found = False
        for body in self.members(system.nics_path):
            nic = _nic(body)
            found = found or bool(nic.mac)
            if nic.mac:
                yield nic
        if not found:
            yield from self._functions(system)

    def _functions(self, system: System) -> Iterator[Nic]:
        for chassis in system.chassis:
            adapters = link(self.resource(chassis) or {}, "NetworkAdapters")
            for adapter in self.members(adapters):
                for body in self.members(link(adapter, "NetworkDeviceFunctions")):
                    mac = text(body, "Ethernet", "PermanentMACAddress") or text(body, "Ethernet", "MACAddress")
                    if mac:
                        yield Nic(text(body, "@odata.id"), text(body, "Id"), plain_mac(mac))

    def drives(self, system: System) -> Iterator[Drive]:
        """Yield the drives of all storage of the system."""
        seen: set[str] = set()
        for storage in self.members(system.storage_path):
            for path in links(storage, "Drives"):
                body = None if path in seen else self.resource(path)
                seen.add(path)
                if body:
                    yield _drive(body, path)

    def slots(self, system: System) -> Iterator[Slot]:
        """Yield the slots of virtual media: of the system, else of its managers."""
        paths = [system.media_path] if system.media_path else []
        paths = paths or [link(self.resource(one) or {}, "VirtualMedia") for one in system.managers]
        for path in paths:
            for body in self.members(path):
                yield slot_of(body)

    def manager(self, system: System) -> Manager | None:
        """Return the first manager of the system."""
        for path in system.managers:
            body = self.resource(path)
            if body:
                nics = [_nic(one) for one in self.members(link(body, "EthernetInterfaces"))]
                macs = tuple(one.mac for one in nics if one.mac)
                return Manager(path, text(body, "Id"), text(body, "Model"), text(body, "FirmwareVersion"), macs)
        return None

    def chassis_serial(self, system: System) -> str:
        """Return the serial number of the first chassis that shows one."""
        found = (text(self.resource(path) or {}, "SerialNumber") for path in system.chassis)
        return next((one for one in found if one), "")


def _nic(body: Resource) -> Nic:
    mac = text(body, "PermanentMACAddress") or text(body, "MACAddress")
    state = text(body, "LinkStatus")
    has_link = None if not state else state == "LinkUp"
    return Nic(text(body, "@odata.id"), text(body, "Id"), plain_mac(mac), number(body, "SpeedMbps"), has_link)


def _drive(body: Resource, path: str) -> Drive:
    return Drive(
        text(body, "@odata.id") or path,
        text(body, "Name") or text(body, "Id"),
        text(body, "SerialNumber"),
        number(body, "CapacityBytes"),
        text(body, "Protocol"),
        text(body, "Model"),
        text(body, "MediaType"),
    )
