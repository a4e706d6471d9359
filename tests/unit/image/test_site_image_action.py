"""The action site_image, by ansible-playbook: a file that is not the stated one is not copied, another one is copied once."""

from __future__ import annotations

import json
import re
from pathlib import Path
from typing import Any

import pytest

from ansible_collections.bedplate.cluster.plugins.action import site_image
from ansible_collections.bedplate.cluster.plugins.module_utils.provision.medium import BOOT_FILES
from tests.kit import plays
from tests.kit.provision import small_image

pytestmark = [pytest.mark.playbooks, pytest.mark.tools("zstd", "mke2fs", "sfdisk")]


def play(here: Path, /, *words: str, **arguments: str) -> tuple[int, str]:
    """Run the action on this machine. Return the exit status and the output in one line."""
    assert site_image.ActionModule
    task = {"name": "Place the image", "bedplate.cluster.site_image": arguments}
    document: list[dict[str, Any]] = [{"name": "Play", "hosts": "localhost", "gather_facts": False, "tasks": [task]}]
    (here / "play.yml").write_text(json.dumps(document))
    done = plays.play("-i", "localhost,", "-c", "local", *words, here / "play.yml", cwd=here)
    return done.returncode, " ".join(done.stdout.split())


def test_what_is_copied(tmp_path: Path) -> None:
    image = small_image.make(tmp_path / "image")
    boot, folder, served = tmp_path / "kit", tmp_path / "images/tiny", tmp_path / "served"
    boot.mkdir()
    for name in BOOT_FILES:
        (boot / name).write_text(name)
    given = {"source": str(image.path), "folder": str(folder), "served": str(served), "boot": str(boot)}
    status, text = play(tmp_path, **given, sha256="0" * 64, stated_in="c.bedplate.yml:7: images.tiny.sha256")
    assert status == 2
    assert f"c.bedplate.yml:7: images.tiny.sha256 is {'0' * 64}, and {image.path} has {image.sha256}" in text
    assert "file not found" not in text
    status, text = play(tmp_path, **{**given, "source": "/no/such/file"}, sha256=image.sha256)
    assert status == 2
    assert "/no/such/file: No such file or directory" in text
    assert not folder.exists()
    for words, changed in ((["--check"], 1), ([], 1), ([], 0), (["--check"], 0)):
        status, text = play(tmp_path, *words, **given, sha256=image.sha256)
        assert status == 0, text
        assert re.search(rf"changed={changed} ", text), text
    assert (served / "images" / f"{image.sha256}.img.zst").read_bytes() == image.path.read_bytes()
