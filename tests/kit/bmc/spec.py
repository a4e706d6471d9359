# SPDX-License-Identifier: GPL-3.0-or-later
"""Data that describes a simulated BMC: the machine, the shape of its Redfish tree, and its faults."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, fields
from typing import Any

TARGETS = ("None", "Pxe", "Cd", "Hdd", "BiosSetup", "UefiHttp")


@dataclass
class Faults:
    """Faults of one BMC. Counts are used up, one for each request that fits `methods` and `paths` (substrings); both are all if empty.

    The session's own requests and ServiceRoot are spared by counts, unless `paths` names them.
    """

    methods: list[str] = field(default_factory=list)
    paths: list[str] = field(default_factory=list)
    busy: int = 0
    """Answers with `busy_status` and, if set, `retry_after` as Retry-After."""
    busy_status: int = 503
    retry_after: str = ""
    in_post: int = 0
    """Writes that are refused because the machine is in POST (HTTP 400, as iLO does)."""
    garbage: int = 0
    """Answers of a text that is not JSON."""
    huge: int = 0
    """Answers with a body of 64 MiB."""
    cut: int = 0
    """Connections that end without an answer: before the request is obeyed, or after it if `cut_after`."""
    cut_after: bool = False
    drip: int = 0
    """Answers of one byte in a fifth of a second."""
    gzip: bool = False
    """All answers are packed."""
    forget: int = 0
    """Requests before which the BMC forgets its sessions."""
    changed_between: int = 0
    """Writes before which another program changes the resource."""
    slow_s: float = 0.0
    """Seconds before each answer to a request that fits `paths`, besides the latency."""
    not_taken: list[str] = field(default_factory=list)
    """Writes that are accepted and ignored: power, boot, media, eject, bios, account, password, protocols, certificate."""
    not_taken_count: int = -1
    """After so many ignored writes the next is taken; -1 is never."""
    takes_s: float = 0.0
    """Seconds until a write of boot or media shows, and until a new certificate is served."""
    serial: str = ""
    """Another serial number than the spec's."""
    tasks: list[str] = field(default_factory=list)
    """Writes that are answered with a task: reset, media, boot, bios, account, protocols, certificate."""
    task_s: float = 0.2
    task_state: str = "Completed"
    """State in which tasks end: Completed or Exception."""
    task_is_monitor: bool = True
    """Location is a task monitor; else the task itself."""
    eject_s: float = 0.0
    """Seconds until an eject shows."""
    conflicts: int = 0
    """Power-ons that answer 409, as a short time after a power-off."""
    password_change: bool = False
    """All requests are refused until the account has a new password."""
    ignores_graceful: bool = False
    """The operating system does not obey GracefulShutdown."""
    missing: list[str] = field(default_factory=list)
    """Substrings of paths that answer 404."""
    broken: list[str] = field(default_factory=list)
    """Substrings of paths that answer 500."""
    echo_secrets: bool = False
    """Refusals repeat the request's body and token in their messages."""


@dataclass
class Spec:
    """One BMC and its machine."""

    node: str
    address: str = "127.0.0.1"
    port: int = 0
    user: str = "root"
    password: str = "factory-canary"
    serial: str = ""
    uuid: str = ""
    manufacturer: str = "bedplate"
    model: str = "sim8000"
    bios_version: str = "1.2.3"
    bmc_firmware: str = "2.0.1"
    bmc_mac: str = "02:00:00:ff:00:01"
    nics: list[str] = field(default_factory=lambda: ["02:00:00:00:00:01", "02:00:00:00:00:02"])
    drives: list[dict[str, Any]] = field(
        default_factory=lambda: [{"serial": "DISK1", "bytes": 960197124096, "protocol": "NVMe", "model": "PM9A3"}]
    )
    bios: dict[str, Any] = field(default_factory=lambda: {"ProcHyperthreading": "Enabled", "SriovEnable": "Disabled"})
    power: str = "On"
    power_s: float = 0.0
    """Seconds of PoweringOn and PoweringOff."""
    latency_s: float = 0.0
    """Seconds before each answer."""
    certificate: str = "good"
    """good, expired, other-name or other-ca."""
    session_service: bool = True
    session_limit: int = 8
    account_slots: int = 0
    """Accounts are so many fixed slots: a POST is refused, and the first slot is reserved."""
    password_shortest: int = 8
    password_longest: int = 64
    password_sign: str = ""
    """A sign that each password must contain."""
    password_ends: str = "none"
    """Sessions that end with a new password: none, own (of its account), or all."""
    has_ntp: bool = True
    has_ipmi: bool = True
    ntp_places: int = 0
    """Number of NTP servers that the BMC always shows; empty places are empty texts."""
    certificate_service: bool = True
    certificate_restarts: bool = False
    """A new certificate ends all sessions and connections."""
    second_system: bool = False
    """A baseboard is the first System; it has no Boot and no reset."""
    twin: str = ""
    """Serial number of a second System that boots too."""
    nics_at: str = "system"
    """system, or chassis: as functions of network adapters."""
    page: int = 0
    """Members in a page of NICs; 0 is all."""
    settings_elsewhere: bool = False
    """The boot override is written to Systems/1/Settings, and Systems/1 does not show it."""
    settings_at: str = "Settings"
    """Settings, or SD: the settings object of the override is then not linked, as with MegaRAC."""
    settings_without_boot: bool = False
    """Systems/1/Settings exists and has no Boot."""
    targets: list[str] = field(default_factory=lambda: list(TARGETS))
    mode_writable: bool = True
    whole_boot: bool = False
    """A PATCH of Boot without mode and target is refused."""
    reset_types: list[str] = field(
        default_factory=lambda: ["On", "ForceOff", "GracefulShutdown", "GracefulRestart", "ForceRestart", "PowerCycle"]
    )
    reset_info: str = "allowable"
    """allowable, or action-info: reset types are in their own resource."""
    reset_time: bool = True
    """The system has LastResetTime."""
    insert: str = "action"
    """Way to insert media: action, patch, or none."""
    insert_strict: bool = False
    """InsertMedia accepts only Image."""
    kvm_slot: bool = False
    """The first slot refuses media by Redfish."""
    kvm_without_action: bool = False
    """The first slot shows no action either."""
    media_at: str = "manager"
    """manager or system."""
    etag: str = "strong"
    """none, weak, strong, required (428 without If-Match), or weak-as-strong (sends weak ETags and compares strong)."""
    redirects: str = ""
    """ServiceRoot redirects to this URL: to its other path, or to another host."""
    expand: bool = False
    """The BMC expands collections on request."""
    names: dict[str, str] = field(default_factory=dict)
    """Path in this simulator -> path that the BMC has instead, with all below it."""
    links: dict[str, str] = field(default_factory=dict)
    """Path of the BMC -> path with which its resources link to it."""
    sku: str = ""
    oem: str = ""
    """Name of a vendor below Oem of ServiceRoot."""
    manager_model: str = "bedplate simulator"
    no_mode: bool = False
    """Boot has no BootSourceOverrideMode."""
    resets_boot: bool = False
    """A PATCH of Boot without Enabled or mode gives them their defaults, Once and Legacy."""
    http_uri_in_bios: bool = False
    """Boot has no HttpBootUri: the BIOS attribute HttpDev1Uri is the URI of HTTP boot."""
    bios_apply: str = ""
    """The BIOS lists the apply time OnReset, and a PATCH of its settings with one is `needed` or `refused`; "": neither."""
    slots: list[str] = field(default_factory=list)
    """Slots for CDs, by id, instead of the usual ones."""
    update_service: bool = True
    behind: str = ""
    """`module:function` that returns the machine behind the BMC (behind.py)."""
    behind_options: dict[str, Any] = field(default_factory=dict)
    faults: Faults = field(default_factory=Faults)


def spec_of(data: Mapping[str, Any]) -> Spec:
    """Return a spec from JSON data. Raises ValueError for an unknown key."""
    values = dict(data)
    faults = faults_of(values.pop("faults", {}))
    _check(values, Spec)
    return Spec(**values, faults=faults)


def faults_of(data: Mapping[str, Any]) -> Faults:
    """Return faults from JSON data. Raises ValueError for an unknown key."""
    _check(data, Faults)
    return Faults(**data)


def _check(values: Mapping[str, Any], kind: type[Spec] | type[Faults]) -> None:
    if unknown := set(values) - {one.name for one in fields(kind)}:
        raise ValueError(f"{kind.__name__} has no {', '.join(sorted(unknown))}")
