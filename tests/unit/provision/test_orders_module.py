"""The modules of the provision host: one node's failure is its own, and a dry run changes nothing."""

from __future__ import annotations

import json
import sys
from pathlib import Path
from typing import Any

import pytest
import yaml

from ansible_collections.bedplate.cluster.plugins.module_utils.image import build_image
from ansible_collections.bedplate.cluster.plugins.module_utils.image.recipe import Recipe
from ansible_collections.bedplate.cluster.plugins.module_utils.provision.orders import Orders
from ansible_collections.bedplate.cluster.plugins.modules import node_image, provision_orders
from tests.kit import plays
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
        monkeypatch,
        provision_orders,
        Module({**params, "arm": [], "seeds": "{}", "release": [], "nodes": [], **other}, check),
    )


@pytest.mark.tools("xorriso")
def test_orders(monkeypatch: pytest.MonkeyPatch, desk: Any, tmp_path: Path) -> None:
    files = {"/etc/hostname": {"content": "gpu001\n", "mode": "0644"}}
    rows = [
        {"machine": MACHINE, "image": IMAGE},
        {"machine": {**MACHINE, "node": "gpu002", "serial": "None"}, "image": IMAGE},
        {"machine": {**MACHINE, "node": "gpu003"}, "image": IMAGE},
        {"machine": {"node": "gpu004"}, "image": {}},
        {"machine": {**MACHINE, "node": "gpu005"}, "image": IMAGE},
    ]
    wrong = {"etc/x": files["/etc/hostname"]}
    seeds = json.dumps({"gpu001": files, "gpu002": files, "gpu003": wrong, "gpu004": {}})
    planned = call(monkeypatch, tmp_path, check=True, arm=rows, nodes=["gpu001"])
    assert (planned["changed"], planned["armed"], planned["states"]) == (True, {}, {})
    result = call(monkeypatch, tmp_path, arm=rows, seeds=seeds, nodes=["gpu001", "gpu002"])
    assert (set(result["armed"]), set(result["failed_nodes"])) == ({"gpu001"}, {"gpu002", "gpu003", "gpu004", "gpu005"})
    assert "placeholder" in result["failed_nodes"]["gpu002"]
    assert result["failed_nodes"]["gpu005"] == "OrderError: gpu005: no seed. Give its files in `seeds`"
    order = result["armed"]["gpu001"]["id"]
    assert result["states"]["gpu001"]["state"] == "armed"
    assert call(monkeypatch, tmp_path, nodes=["gpu001"])["changed"] is False
    assert call(monkeypatch, tmp_path, release=[order], nodes=["gpu001"])["states"] == {}
    assert call(monkeypatch, tmp_path, release=["0" * 32])["failed_nodes"] == {"0" * 32: "no such order"}


@pytest.mark.tools("xorriso")
def test_ansible_masks_nothing_in_the_id_of_an_order(desk: Any, tmp_path: Path) -> None:
    """Values of secret arguments are masked in all results: with `arm` as one, each digit below would be a mask."""
    # The image has more keys than an order needs; each digit of an id is the value of one.
    rows = [{"machine": MACHINE, "image": {**IMAGE, **{f"x{digit}": digit for digit in "0123456789abcdef"}}}]
    files = {"/etc/hostname": {"content": "0", "mode": "0600"}, "/etc/key": {"content": "PRIVATE KEY", "mode": "1"}}
    values = {key: str(tmp_path / key) for key in ("orders", "served", "boot")}
    values |= {"authority": str(tmp_path / "ca.pem"), "url": "https://10.0.0.1:8443"}
    values |= {"arm": rows, "seeds": json.dumps({MACHINE["node"]: files})}  # type: ignore[dict-item]
    task = {"bedplate.cluster.provision_orders": values, "register": "found"}
    shown = {"ansible.builtin.copy": {"content": "{{ found.armed }}", "dest": str(tmp_path / "found")}}
    play = {"hosts": "localhost", "connection": "local", "gather_facts": False, "tasks": [task, shown]}
    play["vars"] = {"ansible_python_interpreter": sys.executable}
    (tmp_path / "play.yml").write_text(yaml.safe_dump([play]))
    done = plays.play("-i", "localhost,", "-vvvv", tmp_path / "play.yml")
    assert done.returncode == 0, done.stdout
    armed = json.loads((tmp_path / "found").read_text())[MACHINE["node"]]
    assert Orders(tmp_path / "orders").open_order(MACHINE["node"]) == armed["id"]
    assert (tmp_path / "served" / armed["medium"][1:]).exists()
    assert "PRIVATE KEY" not in done.stdout


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
