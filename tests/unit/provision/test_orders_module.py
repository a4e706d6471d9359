"""The modules of the provision host: one node's failure is its own, and a dry run changes nothing."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from ansible_collections.bedplate.cluster.plugins.module_utils.image import build_image
from ansible_collections.bedplate.cluster.plugins.module_utils.image.recipe import Recipe
from ansible_collections.bedplate.cluster.plugins.modules import node_image, provision_orders
from tests.kit.module import Module, result_of
from tests.unit.provision.test_arming import IMAGE, MACHINE


def call(monkeypatch: pytest.MonkeyPatch, folder: Path, check: bool = False, **other: Any) -> dict[str, Any]:
    fixed = {key: str(folder / key) for key in ("orders", "served", "boot")}
    params = {
        **fixed,
        "authority": str(folder / "ca.pem"),
        "url": "https://10.0.0.1:8443",
        "words": "",
        "public_key": None,
        "network": None,
        "window": 60,
    }
    return result_of(
        monkeypatch, provision_orders, Module({**params, "arm": [], "release": [], "nodes": [], **other}, check)
    )


@pytest.mark.tools("xorriso")
def test_orders(monkeypatch: pytest.MonkeyPatch, desk: Any, tmp_path: Path) -> None:
    files = {"/etc/hostname": {"content": "gpu001\n", "mode": "0644"}}
    rows = [
        {"machine": MACHINE, "image": IMAGE, "files": files},
        {"machine": {**MACHINE, "node": "gpu002", "serial": "None"}, "image": IMAGE, "files": files},
        {"machine": {**MACHINE, "node": "gpu003"}, "image": IMAGE, "files": {"etc/x": files["/etc/hostname"]}},
        {"machine": {"node": "gpu004"}, "image": {}, "files": {}},
    ]
    planned = call(monkeypatch, tmp_path, check=True, arm=rows, nodes=["gpu001"])
    assert (planned["changed"], planned["armed"], planned["states"]) == (True, {}, {})
    result = call(monkeypatch, tmp_path, arm=rows, nodes=["gpu001", "gpu002"])
    assert (set(result["armed"]), set(result["failed_nodes"])) == ({"gpu001"}, {"gpu002", "gpu003", "gpu004"})
    assert "placeholder" in result["failed_nodes"]["gpu002"]
    order = result["armed"]["gpu001"]["id"]
    assert result["states"]["gpu001"]["state"] == "armed"
    assert call(monkeypatch, tmp_path, nodes=["gpu001"])["changed"] is False
    assert call(monkeypatch, tmp_path, release=[order], nodes=["gpu001"])["states"] == {}
    assert call(monkeypatch, tmp_path, release=["0" * 32])["failed_nodes"] == {"0" * 32: "no such order"}


def image_module(
    monkeypatch: pytest.MonkeyPatch, folder: Path, check: bool = False, sha256: str = "a" * 64
) -> dict[str, Any]:
    params = {
        "recipe": {"packages": ["chrony"]},
        "folder": str(folder),
        "installer": "/x",
        "key": None,
        "served": str(folder / "served"),
        "stated_in": "c.bedplate.yml:7: images.trixie.sha256",
        "sha256": sha256,
    }
    module = Module(params, check)
    return {**result_of(monkeypatch, node_image, module), **({"warnings": module.warnings} if module.warnings else {})}


def test_an_image_is_built_once(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    facts = {"recipe": Recipe(packages=("chrony",)).digest, "sha256": "a" * 64}

    def build(recipe: Recipe, out: Path, installer: Path, key: Path | None) -> dict[str, Any]:
        assert (recipe.digest, installer, key) == (facts["recipe"], Path("/x"), None)
        (out / "image.img.zst").write_bytes(b"image")
        (out / "image.json").write_text(json.dumps(facts))
        return facts

    monkeypatch.setattr(node_image, "build", build)
    assert image_module(monkeypatch, tmp_path, check=True) == {"changed": True, "image": {}}
    assert not list(tmp_path.iterdir())
    assert image_module(monkeypatch, tmp_path) == {"changed": True, "image": facts}
    assert (tmp_path / "served/images" / f"{'a' * 64}.img.zst").stat().st_nlink == 2
    assert image_module(monkeypatch, tmp_path) == {"changed": False, "image": facts}
    (warning,) = image_module(monkeypatch, tmp_path, sha256="")["warnings"]
    assert "a" * 64 in warning
    refused = image_module(monkeypatch, tmp_path, sha256="b" * 64)
    assert refused["failed"]
    assert refused["msg"].startswith(f"c.bedplate.yml:7: images.trixie.sha256 is {'b' * 64}, and the image")
    assert "a" * 64 in refused["msg"]


def test_a_build_that_fails_names_the_program(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setattr(build_image, "PROGRAMS", {"no-such-program": "its-package"})
    assert "its-package" in image_module(monkeypatch, tmp_path)["msg"]
