# SPDX-License-Identifier: GPL-3.0-or-later
"""Command BMCs by other Redfish clients; run by the Python of .venv-oracles, without bedplate.

Each line of the input is an order: JSON with kind (sushy or dmtf), url, ca_file, user, password, and commands, a list of [verb, argument]:
read, reset TYPE, boot TARGET, insert URL, eject, certify PEM, services. Its line of the output is a JSON list with one entry for each
`read`: power, enabled, target, mode, and image of the CD slot; and for each `services`: certificates (PEM), and by dmtf accounts (user,
role, enabled), NTP servers and whether IPMI is on. An error ends the program.
"""

from __future__ import annotations

import json
import sys
from typing import Any


class BySushy:
    def __init__(self, url: str, ca_file: str, user: str, password: str) -> None:
        import sushy

        self.names = sushy
        self.root = sushy.Sushy(url, username=user, password=password, verify=ca_file)
        systems = self.root.get_system_collection().get_members()
        self.system = next(one for one in systems if one.boot and one.boot.target is not None)

    def slot(self) -> Any:
        # sushy has no media of a system: https://opendev.org/openstack/sushy sushy/resources/system/system.py
        for slot in self.root.get_manager().virtual_media.get_members():
            if self.names.VirtualMediaType.CD in slot.media_types:
                slot.refresh(force=True)
                return slot
        raise LookupError("no slot for CDs")

    def read(self) -> dict[str, Any]:
        self.system.refresh(force=True)
        boot = self.system.boot
        found = {"power": self.system.power_state.value, "enabled": boot.enabled.value, "target": boot.target.value}
        return {**found, "mode": boot.mode.value, "image": self.slot().image or ""}

    def reset(self, kind: str) -> None:
        self.system.reset_system(self.names.ResetType(kind))

    def boot(self, target: str) -> None:
        once = self.names.BootSourceOverrideEnabled.ONCE
        self.system.set_system_boot_options(target=self.names.BootSource(target), enabled=once)

    def insert(self, image: str) -> None:
        self.slot().insert_media(image)

    def eject(self, _nothing: str) -> None:
        self.slot().eject_media()

    def services(self) -> dict[str, Any]:
        located = self.root.get_certificate_service().certificate_locations.get_members()
        return {"certificates": [one.certificate_string for one in located]}

    def certify(self, pem: str) -> None:
        service = self.root.get_certificate_service()
        (place,) = service.certificate_locations.members_identities
        service.replace_certificate(place, pem, "PEM")

    def close(self) -> None:
        self.root.get_session_service().close_session(self.root._auth._session_resource_id)


class ByDmtf:
    def __init__(self, url: str, ca_file: str, user: str, password: str) -> None:
        import redfish

        self.client = redfish.redfish_client(base_url=url, username=user, password=password, cafile=ca_file)
        self.client.login(auth="session")
        members = self.get("/redfish/v1/Systems")["Members"]
        self.path = next(one["@odata.id"] for one in members if "Boot" in self.get(one["@odata.id"]))

    def get(self, path: str) -> Any:
        answer = self.client.get(path)
        assert answer.status == 200, (path, answer.status)
        return answer.dict

    def sent(self, answer: Any) -> None:
        assert answer.status < 300, (answer.status, answer.text)

    def slot(self) -> Any:
        manager = self.get(self.get("/redfish/v1/Managers")["Members"][0]["@odata.id"])
        slots = [self.get(one["@odata.id"]) for one in self.get(manager["VirtualMedia"]["@odata.id"])["Members"]]
        return next(one for one in slots if "CD" in one["MediaTypes"])

    def read(self) -> dict[str, Any]:
        system = self.get(self.path)
        boot = system["Boot"]
        found = {name: boot[f"BootSourceOverride{name.title()}"] for name in ("enabled", "target", "mode")}
        return {"power": system["PowerState"], **found, "image": self.slot()["Image"] or ""}

    def reset(self, kind: str) -> None:
        target = self.get(self.path)["Actions"]["#ComputerSystem.Reset"]["target"]
        self.sent(self.client.post(target, body={"ResetType": kind}))

    def boot(self, target: str) -> None:
        found = self.client.get(self.path)
        body = {"Boot": {"BootSourceOverrideEnabled": "Once", "BootSourceOverrideTarget": target}}
        self.sent(self.client.patch(self.path, body=body, headers={"If-Match": found.getheader("etag")}))

    def insert(self, image: str) -> None:
        self.sent(
            self.client.post(self.slot()["Actions"]["#VirtualMedia.InsertMedia"]["target"], body={"Image": image})
        )

    def eject(self, _nothing: str) -> None:
        self.sent(self.client.post(self.slot()["Actions"]["#VirtualMedia.EjectMedia"]["target"], body={}))

    def services(self) -> dict[str, Any]:
        listed = [self.get(one["@odata.id"]) for one in self.get("/redfish/v1/AccountService/Accounts")["Members"]]
        accounts = [(one["UserName"], one["RoleId"], one["Enabled"]) for one in listed if one["UserName"]]
        manager = self.get(self.get("/redfish/v1/Managers")["Members"][0]["@odata.id"])
        protocols = self.get(manager["NetworkProtocol"]["@odata.id"])
        service = self.get(self.get("/redfish/v1/")["CertificateService"]["@odata.id"])
        located = self.get(service["CertificateLocations"]["@odata.id"])["Links"]["Certificates"]
        certificates = [self.get(one["@odata.id"])["CertificateString"] for one in located]
        ntp, ipmi = protocols["NTP"]["NTPServers"], protocols["IPMI"]["ProtocolEnabled"]
        return {"certificates": certificates, "accounts": accounts, "ntp": ntp, "ipmi": ipmi}

    def certify(self, pem: str) -> None:
        service = self.get(self.get("/redfish/v1/")["CertificateService"]["@odata.id"])
        (place,) = self.get(service["CertificateLocations"]["@odata.id"])["Links"]["Certificates"]
        body = {"CertificateUri": place, "CertificateString": pem, "CertificateType": "PEM"}
        self.sent(self.client.post(service["Actions"]["#CertificateService.ReplaceCertificate"]["target"], body=body))

    def close(self) -> None:
        self.client.logout()


def main() -> None:
    for line in sys.stdin:
        order = json.loads(line)
        client = {"sushy": BySushy, "dmtf": ByDmtf}[order["kind"]](
            order["url"], order["ca_file"], order["user"], order["password"]
        )
        found = []
        try:
            for verb, argument in order["commands"]:
                if verb in ("read", "services"):
                    found.append(getattr(client, verb)())
                else:
                    getattr(client, verb)(argument)
        finally:
            client.close()
        print(json.dumps(found), flush=True)


if __name__ == "__main__":
    main()
