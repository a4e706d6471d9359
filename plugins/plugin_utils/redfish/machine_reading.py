# SPDX-License-Identifier: GPL-3.0-or-later
"""Read a BMC's resources as one machine.

The system is required. Other resources are optional: a BMC that fails to show one is still a machine, and `Machine.unread` has the reason.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterator, Mapping
from dataclasses import replace
from typing import Any, TypeVar

from .client import Answer, Client
from .errors import MISSING, NOT_JSON, OTHER, STOPPED, TIMEOUT, UNREACHABLE, UNSUPPORTED, BmcError
from .fields import Resource, flag, link, links, part, parts, text, texts
from .live_reader import reader_of
from .machine import Drive, Machine, Manager, Nic, Slot, System, plain_mac
from .machine_resources import boot_of, drive_of, nic_of, slot_of, system_of
from .resources.dialects import BIOS_ATTRIBUTE, Dialect, recognise
from .resources.evidence import LazyEvidence

NICS, DRIVES, SLOTS, MANAGER, PENDING = "nics", "drives", "slots", "manager", "pending"
ALL = frozenset({NICS, DRIVES, SLOTS, MANAGER, PENDING})
FIRMWARE = "firmware"
"""A part that only the dialect has: whether the BMC lists its firmware."""
_FIELDS = {
    PENDING: ("boot_written_at", "boot_mode_writable", "http_boot", "cd_target"),
    SLOTS: ("media_insert", "media_slots", "media_slot", "media_settle"),
    FIRMWARE: ("firmware_listed",),
}
"""Part -> fields of the dialect that commands of this part use. Rows of other fields would cost requests."""
_EVERY = ("serial_from", "reset_types_at", "retry_power_conflict")
_MOST_SYSTEMS, _MOST_PAGES, _MOST_MEMBERS = 16, 50, 512
_FATAL = (UNREACHABLE, TIMEOUT, STOPPED)
T = TypeVar("T")


def read_machine(
    client: Client, *, serial: str = "", only: Collection[str] = ALL, dialect: Dialect | None = None
) -> Machine:
    """Return the machine. `serial` is the declared one: it decides between several systems that can boot. `only` names optional parts.

    The dialect is recognised (resources/dialects.py) unless the caller states it.
    Raises BmcError: kind unsupported if no system can be chosen.
    """
    root = client.root or client.get("/redfish/v1/")
    reader = _Reader(client, root)
    path = link(root.body, "Systems")
    if not path:
        raise client.error(UNSUPPORTED, "no Systems in ServiceRoot", "Use IPMI for this node.", path=root.path)
    paths = [one for page in reader.pages(path) for one in links(page.body, "Members")][:_MOST_SYSTEMS]
    answers = {one: client.get(one) for one in paths}
    systems = {one: system_of(answer) for one, answer in answers.items()}
    at, system = _chosen(client, systems, serial, path)
    slots = list(reader.slots(system)) if SLOTS in only else []
    linked = reader.settings(system.settings_path) if PENDING in only else None
    known: dict[str, Any] = {"media": tuple(slots)} if SLOTS in only else {}
    known |= {"system_settings": linked.body if linked else {}} if PENDING in only else {}
    evidence = LazyEvidence(reader_of(client), root.body, answers[at].body, **known)
    found = dialect or _dialect(evidence, only)
    if found.boot_written_at == "sd" and PENDING in only:
        system = replace(system, settings_path=f"{system.path.rstrip('/')}/SD")
        linked = reader.settings(system.settings_path)
    pending = linked if linked and found.boot_written_at != "system" else None
    if found.reset_types_at == "action_info":
        system = reader.with_reset_types(system)
    return Machine(
        client.bmc.node,
        system,
        text(root.body, "Vendor"),
        text(root.body, "Product"),
        text(root.body, "RedfishVersion"),
        tuple(reader.nics(system)) if NICS in only else (),
        tuple(reader.drives(system)) if DRIVES in only else (),
        tuple(one for one in map(slot_of, slots) if _is_used(one, found)),
        reader.manager(system) if MANAGER in only else None,
        boot_of(pending.body) if pending else None,
        pending.etag if pending else "",
        "" if system.serial else reader.chassis_serial(system),
        tuple(one.path for one in systems.values() if one.path != system.path),
        tuple(reader.unread.items()),
        found,
    )


def _dialect(evidence: LazyEvidence, parts: Collection[str]) -> Dialect:
    """Return the dialect, as far as commands of these parts use it."""
    names = {*_EVERY, *(name for part in parts for name in _FIELDS.get(part, ()))}
    found = recognise(evidence, names)
    return recognise(evidence, {*names, "bios_apply_time"}) if found.http_boot == BIOS_ATTRIBUTE else found


def _is_used(slot: Slot, dialect: Dialect) -> bool:
    is_named = not dialect.media_slot or slot.name == dialect.media_slot
    return is_named and (dialect.media_slots != "with_insert" or bool(slot.insert_path))


def read_system(client: Client, system: System) -> System:
    """Return the system as it is now; reset types are kept."""
    found = system_of(client.get(system.path))
    if found.reset and system.reset and not found.reset.types:
        return replace(found, reset=system.reset)
    return found


def _chosen(client: Client, systems: Mapping[str, System], serial: str, path: str) -> tuple[str, System]:
    """Return the system that boots: the one with Boot and a reset action, of several the one with the declared serial number."""
    able = {at: one for at, one in systems.items() if one.boot and one.reset} or (systems if len(systems) == 1 else {})
    declared = {at: one for at, one in able.items() if one.is_serial(serial)}
    for listed in (declared, able):
        if len(listed) == 1:
            return next(iter(listed.items()))
    names = ", ".join(one.path.rpartition("/")[2] for one in able.values())
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
            nic = nic_of(body)
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
                    yield drive_of(body, path)

    def settings(self, path: str) -> Answer | None:
        """Return a settings object, None if the BMC does not have or show it."""
        return self.optional(path, lambda: self.client.find(path))

    def slots(self, system: System) -> Iterator[Resource]:
        """Yield the slots of virtual media: of the system, else of its managers."""
        paths = [system.media_path] if system.media_path else []
        paths = paths or [link(self.resource(one) or {}, "VirtualMedia") for one in system.managers]
        for path in paths:
            yield from self.members(path)

    def manager(self, system: System) -> Manager | None:
        """Return the first manager of the system."""
        for path in system.managers:
            body = self.resource(path)
            if body:
                nics = [nic_of(one) for one in self.members(link(body, "EthernetInterfaces"))]
                macs = tuple(one.mac for one in nics if one.mac)
                return Manager(path, text(body, "Id"), text(body, "Model"), text(body, "FirmwareVersion"), macs)
        return None

    def chassis_serial(self, system: System) -> str:
        """Return the serial number of the first chassis that shows one."""
        found = (text(self.resource(path) or {}, "SerialNumber") for path in system.chassis)
        return next((one for one in found if one), "")
