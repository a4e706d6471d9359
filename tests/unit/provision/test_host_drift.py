"""What verify reads of a provision host: the certificate on its port, the answers behind it, and the images that it serves."""

from __future__ import annotations

import hashlib
import json
import time
from pathlib import Path

import pytest

from ansible_collections.bedplate.cluster.plugins.module_utils.provision import host_drift, image_drift
from ansible_collections.bedplate.cluster.plugins.module_utils.provision.medium import BOOT_FILES
from tests.kit.provision import certificates


def expected(site, **other: object) -> dict[str, object]:
    port = site.server.server_address[1]
    return {"address": "127.0.0.1", "port": port, "authority": str(site.ca), "days": 20, **other}


def kinds(site, later: float = 0.0, **other: object) -> list[str]:
    found = host_drift.findings("/", expected(site, **other), lambda: time.time() + later)
    return [f"{one.kind} {one.severity}" for one in found]


def test_a_host_that_serves_has_no_finding(site) -> None:
    assert kinds(site) == []


def test_a_certificate_that_ends_soon_is_a_warning(site) -> None:
    assert kinds(site, 15 * 86400) == ["provision-certificate warning"]


def test_a_certificate_of_another_ca_or_address_is_an_error(site, tmp_path: Path) -> None:
    other = certificates.make(tmp_path / "other") / "ca.pem"
    assert kinds(site, authority=str(other)) == ["provision-certificate error"]
    assert kinds(site, authority=str(tmp_path / "none")) == ["provision-certificate error"]
    assert kinds(site, address="localhost") == ["provision-certificate error"]


def test_a_port_without_a_server_is_an_error(site) -> None:
    assert kinds(site, port=1) == ["provision-certificate error"]


def test_a_listed_folder_and_a_server_that_accepts_everything_are_errors(site, monkeypatch: pytest.MonkeyPatch) -> None:
    handler = site.server.RequestHandlerClass
    monkeypatch.setattr(handler, "do_GET", lambda self: self._answer(200, b"a list", "sent"))
    assert kinds(site) == ["provision-server error"] * 4
    monkeypatch.setattr(handler, "do_POST", lambda self: (self._values(), self._answer(200, b"claimed", "claim")))
    assert kinds(site) == ["provision-server error"] * 5


def host(folder: Path, name: str = "trixie") -> dict[str, object]:
    """Serve an image, and return what is expected."""
    data = b"an image"
    sha256 = hashlib.sha256(data).hexdigest()
    boot = folder / "images" / name / "boot"
    boot.mkdir(parents=True)
    for one in BOOT_FILES:
        (boot / one).write_text(one)
    (boot.parent / "image.json").write_text(json.dumps({"sha256": sha256, "bytes": len(data)}))
    (folder / "served/images").mkdir(parents=True)
    (folder / "served/images" / f"{sha256}.img.zst").write_bytes(data)
    return {"directory": str(folder), "images": {name: sha256}, "public_key": ""}


def test_an_image_that_is_served_whole_has_no_finding(tmp_path: Path) -> None:
    assert list(image_drift.findings("/", host(tmp_path))) == []


@pytest.mark.parametrize("fault", ["cut", "changed", "missing", "another", "boot", "unread", "unsigned"])
def test_each_fault_of_an_image_is_a_finding(tmp_path: Path, fault: str) -> None:
    wanted = host(tmp_path)
    (served,) = (tmp_path / "served/images").iterdir()
    if fault == "cut":
        served.write_bytes(b"an")
    elif fault == "changed":
        served.write_bytes(b"in image")
    elif fault == "missing":
        served.unlink()
    elif fault == "another":
        wanted["images"] = {"trixie": "0" * 64}
    elif fault == "boot":
        (tmp_path / "images/trixie/boot/vmlinuz").unlink()
    elif fault == "unread":
        (tmp_path / "images/trixie/image.json").write_text("{")
    else:
        wanted["public_key"] = str(tmp_path / "no.pub")
    (found,) = image_drift.findings("/", wanted)
    assert (found.kind, found.severity) == ("image", "error")
    assert "trixie" in found.where
