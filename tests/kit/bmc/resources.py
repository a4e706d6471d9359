# SPDX-License-Identifier: GPL-3.0-or-later
"""The Redfish tree of a simulated BMC: path -> resource, as of DMTF's schemas."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

from tests.kit.bmc import accounts, manager_services
from tests.kit.bmc.spec import TARGETS
from tests.kit.bmc.state import BIOS, BIOS_SETTINGS, NO_OVERRIDE, SETTINGS, SYSTEM, Slot, State, Task

Json = dict[str, Any]
V1 = "/redfish/v1"
SYSTEMS, SYSTEM_PATH = f"{V1}/Systems", f"{V1}/Systems/1"
BASEBOARD = f"{V1}/Systems/HGX_Baseboard_0"
MANAGER = f"{V1}/Managers/1"
ADAPTERS = f"{V1}/Chassis/1/NetworkAdapters"
SESSIONS = f"{V1}/SessionService/Sessions"
TASKS = f"{V1}/TaskService/Tasks"
RESET_INFO = f"{SYSTEM_PATH}/ResetActionInfo"
UUID = "00000000-0000-4000-8000-0000000000"
_OK = {"State": "Enabled", "Health": "OK"}


def resource(state: State, path: str) -> Json | None:
    """Return the resource at a path without trailing slash, or None."""
    parts = path.removeprefix(V1).strip("/").split("/")
    match parts:
        case [""]:
            return _root(state)
        case ["Systems", *rest]:
            return _systems(state, rest)
        case ["Managers", *rest]:
            return _managers(state, rest)
        case ["Chassis", *rest]:
            return _chassis(state, rest)
        case ["SessionService", *rest]:
            return _session_service(state, rest)
        case ["AccountService", *rest]:
            return _accounts(state, rest)
        case ["CertificateService", *rest] if state.spec.certificate_service:
            return _certificate_service(rest)
        case ["TaskService", *rest]:
            return _task_service(state, rest)
        case ["UpdateService", *rest]:
            return _update_service(state, rest)
    return None


def version_key(path: str) -> str:
    """Return the key of a resource's version, by which its ETag changes."""
    keys = {
        SYSTEM_PATH: SYSTEM,
        f"{SYSTEM_PATH}/Settings": SETTINGS,
        f"{SYSTEM_PATH}/SD": SETTINGS,
        f"{SYSTEM_PATH}/Bios": BIOS,
        f"{SYSTEM_PATH}/Bios/Settings": BIOS_SETTINGS,
    }
    if "/VirtualMedia/" in path:
        return f"media-{path.rpartition('/')[2]}"
    return keys.get(path, path)


def boot_settings(state: State) -> str:
    """Return the path of the settings object of the boot override."""
    return f"{SYSTEM_PATH}/{state.spec.settings_at}"


def link(path: str) -> Json:
    """Return a link to a resource."""
    return {"@odata.id": path}


def _collection(path: str, kind: str, members: Iterable[str]) -> Json:
    listed = [link(f"{path}/{one}") for one in members]
    return {
        "@odata.id": path,
        "@odata.type": f"#{kind}Collection.{kind}Collection",
        "Name": f"{kind} Collection",
        "Members": listed,
        "Members@odata.count": len(listed),
    }


def _entry(path: str, kind: str, version: str, name: str, **more: Any) -> Json:
    number = path.rpartition("/")[2]
    return {
        "@odata.id": path,
        "@odata.type": f"#{kind}.v{version}.{kind}",
        "Id": number,
        "Name": name,
        **more,
    }


def _root(state: State) -> Json:
    expand = {"ExpandAll": True, "NoLinks": True, "Links": True, "Levels": True, "MaxLevels": 2}
    found = _entry(
        f"{V1}/",
        "ServiceRoot",
        "1_9_0",
        "Root Service",
        RedfishVersion="1.11.0",
        UUID=_uuid(state),
        Product="bedplate BMC simulator",
        Vendor=state.spec.manufacturer,
        ProtocolFeaturesSupported={"ExpandQuery": expand} if state.spec.expand else {},
        Systems=link(SYSTEMS),
        Managers=link(f"{V1}/Managers"),
        Chassis=link(f"{V1}/Chassis"),
        AccountService=link(f"{V1}/AccountService"),
        Tasks=link(f"{V1}/TaskService"),
        **({"UpdateService": link(f"{V1}/UpdateService")} if state.spec.update_service else {}),
        **({"Oem": {state.spec.oem: {}}} if state.spec.oem else {}),
        Links={"Sessions": link(SESSIONS)} if state.spec.session_service else {},
    )
    if state.spec.certificate_service:
        found["CertificateService"] = link(manager_services.CERTIFICATE_SERVICE)
    if state.spec.session_service:
        found["SessionService"] = link(f"{V1}/SessionService")
    return {**found, "Id": "RootService"}


def _uuid(state: State) -> str:
    return state.spec.uuid or f"{UUID}{sum(state.spec.node.encode()) % 100:02d}"


def _systems(state: State, rest: list[str]) -> Json | None:
    spec = state.spec
    match rest:
        case []:
            return _collection(
                SYSTEMS,
                "ComputerSystem",
                [*(["HGX_Baseboard_0"] if spec.second_system else []), "1", *(["2"] if spec.twin else [])],
            )
        case ["HGX_Baseboard_0"] if spec.second_system:
            return _entry(
                BASEBOARD,
                "ComputerSystem",
                "1_17_0",
                "HGX baseboard",
                SerialNumber="BASEBOARD",
                SystemType="Physical",
                Status=_OK,
            )
        case ["1"]:
            return _system(state)
        case ["2"] if spec.twin:
            path = f"{SYSTEMS}/2"
            action = {
                "target": f"{path}/Actions/ComputerSystem.Reset",
                "ResetType@Redfish.AllowableValues": spec.reset_types,
            }
            actions = {"#ComputerSystem.Reset": action}
            return _entry(
                path, "ComputerSystem", "1_17_0", "Twin", SerialNumber=spec.twin, Boot=_boot(state), Actions=actions
            )
        case ["1", "ResetActionInfo"] if spec.reset_info == "action-info":
            parameter = {
                "Name": "ResetType",
                "Required": True,
                "DataType": "String",
                "AllowableValues": spec.reset_types,
            }
            return _entry(RESET_INFO, "ActionInfo", "1_2_0", "Reset", Parameters=[parameter])
        case ["1", name] if name == spec.settings_at and (spec.settings_elsewhere or spec.settings_without_boot):
            boot = {} if spec.settings_without_boot else {"Boot": _boot(state)}
            return _entry(boot_settings(state), "ComputerSystem", "1_17_0", "Pending settings", **boot)
        case ["1", "Bios"]:
            return _entry(
                f"{SYSTEM_PATH}/Bios",
                "Bios",
                "1_1_0",
                "BIOS",
                AttributeRegistry="BiosAttributeRegistry.v1_0_0",
                Attributes=dict(state.bios),
                **{
                    "@Redfish.Settings": {
                        "@odata.type": "#Settings.v1_3_0.Settings",
                        "SettingsObject": link(f"{SYSTEM_PATH}/Bios/Settings"),
                        **({"SupportedApplyTimes": ["OnReset"]} if spec.bios_apply else {}),
                    }
                },
            )
        case ["1", "Bios", "Settings"]:
            path = f"{SYSTEM_PATH}/Bios/Settings"
            return _entry(path, "Bios", "1_1_0", "Pending BIOS", Attributes={**state.bios, **state.bios_pending})
        case ["1", "EthernetInterfaces", *_more] if spec.nics_at != "system":
            return None
        case ["1", "EthernetInterfaces"]:
            return _collection(f"{SYSTEM_PATH}/EthernetInterfaces", "EthernetInterface", _numbers(spec.nics))
        case ["1", "EthernetInterfaces", number] if number in _numbers(spec.nics):
            mac = spec.nics[int(number) - 1]
            return _nic(f"{SYSTEM_PATH}/EthernetInterfaces/{number}", mac, 25000)
        case ["1", "Storage"]:
            return _collection(f"{SYSTEM_PATH}/Storage", "Storage", ["1"])
        case ["1", "Storage", "1"]:
            path = f"{SYSTEM_PATH}/Storage/1"
            drives = [link(f"{path}/Drives/{one}") for one in _numbers(spec.drives)]
            more: Json = {"Drives": drives, "Drives@odata.count": len(drives), "Status": _OK}
            return _entry(path, "Storage", "1_10_0", "Storage", **more)
        case ["1", "Storage", "1", "Drives", number] if number in _numbers(spec.drives):
            drive = spec.drives[int(number) - 1]
            return _entry(
                f"{SYSTEM_PATH}/Storage/1/Drives/{number}",
                "Drive",
                "1_12_0",
                f"Drive {number}",
                SerialNumber=drive["serial"],
                CapacityBytes=drive["bytes"],
                Protocol=drive["protocol"],
                Model=drive["model"],
                MediaType="SSD",
                Status=_OK,
            )
        case ["1", "VirtualMedia", *more_parts] if spec.media_at == "system":
            return _media(state, f"{SYSTEM_PATH}/VirtualMedia", more_parts)
    return None


def _numbers(listed: list[Any]) -> list[str]:
    return [str(number + 1) for number in range(len(listed))]


def _nic(path: str, mac: str, speed: int) -> Json:
    return _entry(
        path,
        "EthernetInterface",
        "1_6_0",
        "NIC",
        MACAddress=mac,
        PermanentMACAddress=mac,
        SpeedMbps=speed,
        LinkStatus="LinkUp",
        Status=_OK,
    )


def _boot(state: State) -> Json:
    spec = state.spec
    # A BMC whose override is in the settings object shows none in the system itself.
    boot: Json = {**state.boot, "BootSourceOverrideTarget@Redfish.AllowableValues": spec.targets}
    if "UefiHttp" not in spec.targets:
        del boot["HttpBootUri"]
    if set(spec.targets) - set(TARGETS) or spec.http_uri_in_bios:
        boot.pop("HttpBootUri", None)
    if spec.no_mode:
        del boot["BootSourceOverrideMode"]
    return boot


def _system(state: State) -> Json:
    spec = state.spec
    action: Json = {"target": f"{SYSTEM_PATH}/Actions/ComputerSystem.Reset"}
    if spec.reset_info == "action-info":
        action["@Redfish.ActionInfo"] = RESET_INFO
    else:
        action["ResetType@Redfish.AllowableValues"] = spec.reset_types
    boot = _boot(state)
    more: Json = {}
    if spec.settings_elsewhere:
        boot.update({key: value for key, value in NO_OVERRIDE.items() if key in boot})
    if (spec.settings_elsewhere or spec.settings_without_boot) and spec.settings_at == "Settings":
        more["@Redfish.Settings"] = {
            "@odata.type": "#Settings.v1_3_0.Settings",
            "SettingsObject": link(boot_settings(state)),
        }
    if spec.sku:
        more["SKU"] = spec.sku
    if spec.reset_time:
        more["LastResetTime"] = state.reset_time
    if spec.nics_at == "system":
        more["EthernetInterfaces"] = link(f"{SYSTEM_PATH}/EthernetInterfaces")
    if spec.media_at == "system":
        more["VirtualMedia"] = link(f"{SYSTEM_PATH}/VirtualMedia")
    return _entry(
        SYSTEM_PATH,
        "ComputerSystem",
        "1_17_0",
        "System",
        SystemType="Physical",
        SerialNumber=spec.faults.serial or spec.serial or f"SN-{spec.node}",
        UUID=_uuid(state),
        Manufacturer=spec.manufacturer,
        Model=spec.model,
        BiosVersion=spec.bios_version,
        PowerState=state.power,
        Status=_OK,
        Boot=boot,
        Bios=link(f"{SYSTEM_PATH}/Bios"),
        Storage=link(f"{SYSTEM_PATH}/Storage"),
        Links={"Chassis": [link(f"{V1}/Chassis/1")], "ManagedBy": [link(MANAGER)]},
        Actions={"#ComputerSystem.Reset": action},
        **more,
    )


def _managers(state: State, rest: list[str]) -> Json | None:
    spec = state.spec
    match rest:
        case []:
            return _collection(f"{V1}/Managers", "Manager", ["1"])
        case ["1"]:
            media = {"VirtualMedia": link(f"{MANAGER}/VirtualMedia")} if spec.media_at == "manager" else {}
            return _entry(
                MANAGER,
                "Manager",
                "1_11_0",
                "BMC",
                ManagerType="BMC",
                FirmwareVersion=spec.bmc_firmware,
                Model=spec.manager_model,
                Status=_OK,
                EthernetInterfaces=link(f"{MANAGER}/EthernetInterfaces"),
                NetworkProtocol=link(manager_services.PROTOCOLS),
                Links={"ManagerForServers": [link(SYSTEM_PATH)], "ManagerForChassis": [link(f"{V1}/Chassis/1")]},
                **media,
            )
        case ["1", "EthernetInterfaces"]:
            return _collection(f"{MANAGER}/EthernetInterfaces", "EthernetInterface", ["1"])
        case ["1", "EthernetInterfaces", "1"]:
            return _nic(f"{MANAGER}/EthernetInterfaces/1", spec.bmc_mac, 1000)
        case ["1", "NetworkProtocol", *more]:
            return _protocols(state, more)
        case ["1", "VirtualMedia", *more] if spec.media_at == "manager":
            return _media(state, f"{MANAGER}/VirtualMedia", more)
    return None


def _protocols(state: State, rest: list[str]) -> Json | None:
    match rest:
        case []:
            shown = manager_services.protocols_resource(state)
            return _entry(
                manager_services.PROTOCOLS, "ManagerNetworkProtocol", "1_6_0", "Protocols", Status=_OK, **shown
            )
        case ["HTTPS", "Certificates"]:
            return _collection(manager_services.CERTIFICATES, "Certificate", ["1"])
        case ["HTTPS", "Certificates", "1"]:
            shown = manager_services.certificate_resource(state)
            return _entry(manager_services.CERTIFICATE, "Certificate", "1_3_0", "HTTPS certificate", **shown)
    return None


def _certificate_service(rest: list[str]) -> Json | None:
    path = manager_services.CERTIFICATE_SERVICE
    match rest:
        case []:
            return _entry(path, "CertificateService", "1_0_4", "Certificates", **manager_services.service_resource())
        case ["CertificateLocations"]:
            links = {"Certificates": [link(manager_services.CERTIFICATE)], "Certificates@odata.count": 1}
            return _entry(f"{path}/CertificateLocations", "CertificateLocations", "1_0_2", "Locations", Links=links)
    return None


def _media(state: State, path: str, rest: list[str]) -> Json | None:
    if not rest:
        return _collection(path, "VirtualMedia", [one.name for one in state.slots])
    slot = slot_named(state, rest[0])
    return _slot(state, f"{path}/{slot.name}", slot) if slot and len(rest) == 1 else None


def slot_named(state: State, name: str) -> Slot | None:
    """Return a slot by its id."""
    return next((one for one in state.slots if one.name == name), None)


def _slot(state: State, path: str, slot: Slot) -> Json:
    actions: Json = {}
    if state.spec.insert == "action" and not (slot.is_kvm_only and state.spec.kvm_without_action):
        actions = {
            f"#VirtualMedia.{verb}Media": {"target": f"{path}/Actions/VirtualMedia.{verb}Media"}
            for verb in ("Insert", "Eject")
        }
    return _entry(
        path,
        "VirtualMedia",
        "1_3_0",
        f"Slot {slot.name}",
        MediaTypes=slot.types,
        Image=slot.image or None,
        ImageName=slot.image.rpartition("/")[2] or None,
        Inserted=bool(slot.image),
        WriteProtected=slot.write_protected,
        ConnectedVia="URI" if slot.image else "NotConnected",
        **({"Actions": actions} if actions else {}),
    )


def _chassis(state: State, rest: list[str]) -> Json | None:
    match rest:
        case []:
            return _collection(f"{V1}/Chassis", "Chassis", ["1"])
        case ["1"]:
            return _entry(
                f"{V1}/Chassis/1",
                "Chassis",
                "1_14_0",
                "Chassis",
                ChassisType="RackMount",
                Manufacturer=state.spec.manufacturer,
                Model=state.spec.model,
                SerialNumber=f"CH-{state.spec.node}",
                PowerState=state.power,
                Status=_OK,
                Links={"ComputerSystems": [link(SYSTEM_PATH)], "ManagedBy": [link(MANAGER)]},
                **({"NetworkAdapters": link(ADAPTERS)} if state.spec.nics_at == "chassis" else {}),
            )
        case ["1", "NetworkAdapters", *more] if state.spec.nics_at == "chassis":
            return _adapters(state, more)
    return None


def _adapters(state: State, rest: list[str]) -> Json | None:
    functions = f"{ADAPTERS}/1/NetworkDeviceFunctions"
    match rest:
        case []:
            return _collection(ADAPTERS, "NetworkAdapter", ["1"])
        case ["1"]:
            return _entry(f"{ADAPTERS}/1", "NetworkAdapter", "1_5_0", "NIC", NetworkDeviceFunctions=link(functions))
        case ["1", "NetworkDeviceFunctions"]:
            return _collection(functions, "NetworkDeviceFunction", _numbers(state.spec.nics))
        case ["1", "NetworkDeviceFunctions", number] if number in _numbers(state.spec.nics):
            ethernet = {"PermanentMACAddress": state.spec.nics[int(number) - 1]}
            return _entry(f"{functions}/{number}", "NetworkDeviceFunction", "1_5_0", "Port", Ethernet=ethernet)
    return None


def _session_service(state: State, rest: list[str]) -> Json | None:
    if not state.spec.session_service:
        return None
    match rest:
        case []:
            service = f"{V1}/SessionService"
            return _entry(
                service,
                "SessionService",
                "1_1_8",
                "Sessions",
                ServiceEnabled=True,
                SessionTimeout=1800,
                Sessions=link(SESSIONS),
            )
        case ["Sessions"]:
            return _collection(SESSIONS, "Session", state.sessions.values())
        case ["Sessions", number] if number in state.sessions.values():
            return session(state, number)
    return None


def session(state: State, number: str) -> Json:
    """Return a session; its token is never in it."""
    return _entry(f"{SESSIONS}/{number}", "Session", "1_3_0", f"Session {number}", UserName=_user_of(state, number))


def _user_of(state: State, number: str) -> str:
    return next((state.users[token] for token, one in state.sessions.items() if one == number), state.spec.user)


def _accounts(state: State, rest: list[str]) -> Json | None:
    service = f"{V1}/AccountService"
    match rest:
        case []:
            return _entry(
                service,
                "AccountService",
                "1_9_0",
                "Accounts",
                Accounts=link(f"{service}/Accounts"),
                Roles=link(f"{service}/Roles"),
                MinPasswordLength=state.spec.password_shortest,
                MaxPasswordLength=state.spec.password_longest,
            )
        case ["Accounts"]:
            return _collection(accounts.ACCOUNTS, "ManagerAccount", state.accounts)
        case ["Accounts", number] if number in state.accounts:
            shown = accounts.account_resource(state, number)
            return _entry(f"{accounts.ACCOUNTS}/{number}", "ManagerAccount", "1_8_0", "Account", **shown)
        case ["Roles"]:
            return _collection(f"{service}/Roles", "Role", accounts.ROLES)
        case ["Roles", role] if role in accounts.ROLES:
            privileges = ["Login", "ConfigureManager", "ConfigureUsers", "ConfigureSelf", "ConfigureComponents"]
            own = {"Administrator": privileges, "Operator": ["Login", "ConfigureSelf", "ConfigureComponents"]}
            return _entry(
                f"{service}/Roles/{role}",
                "Role",
                "1_3_1",
                role,
                RoleId=role,
                IsPredefined=True,
                AssignedPrivileges=own.get(role, ["Login", "ConfigureSelf"]),
            )
    return None


def _task_service(state: State, rest: list[str]) -> Json | None:
    match rest:
        case []:
            return _entry(f"{V1}/TaskService", "TaskService", "1_2_0", "Tasks", ServiceEnabled=True, Tasks=link(TASKS))
        case ["Tasks"]:
            return _collection(TASKS, "Task", state.tasks)
        case ["Tasks", number] if number in state.tasks:
            return task_resource(number, state.tasks[number])
    return None


def task_resource(number: str, task: Task) -> Json:
    """Return a task; a failed one has a message."""
    failed = {"MessageId": "Sim.1.0.TaskFailed", "Message": "The medium is unreadable.", "Severity": "Critical"}
    return _entry(
        f"{TASKS}/{number}",
        "Task",
        "1_5_1",
        f"Task {number}",
        TaskState=task.state,
        TaskStatus="OK" if task.state != "Exception" else "Critical",
        TaskMonitor=f"{V1}/TaskMonitors/{number}",
        Messages=[failed] if task.state == "Exception" else [],
    )


def _update_service(state: State, rest: list[str]) -> Json | None:
    if not state.spec.update_service:
        return None
    path = f"{V1}/UpdateService"
    versions = {"BMC": state.spec.bmc_firmware, "BIOS": state.spec.bios_version}
    match rest:
        case []:
            inventory = link(f"{path}/FirmwareInventory")
            return _entry(path, "UpdateService", "1_8_0", "Update", ServiceEnabled=True, FirmwareInventory=inventory)
        case ["FirmwareInventory"]:
            return _collection(f"{path}/FirmwareInventory", "SoftwareInventory", versions)
        case ["FirmwareInventory", name] if name in versions:
            return _entry(
                f"{path}/FirmwareInventory/{name}",
                "SoftwareInventory",
                "1_3_0",
                name,
                Version=versions[name],
                Updateable=True,
                Status=_OK,
            )
    return None
