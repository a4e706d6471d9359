from __future__ import annotations

import json
import sys
from pathlib import Path
from typing import Any

import pytest

# The lab is no installed package: it is run from the checkout, as `python -m lab`.
sys.path.insert(0, str(Path(__file__).parents[3]))

from lab import archives, image, nodes, ssh
from lab.host import choose
from lab.podman import LABEL, Podman


class FakePodman(Podman):
    """Podman as far as the lab uses it: remembers containers and networks, and what was asked of it."""

    def __init__(self) -> None:
        super().__init__(choose("v2", True))
        self.boxes: dict[str, dict[str, Any]] = {}
        self.nets: dict[str, dict[str, Any]] = {}
        self.brought: dict[str, Any] = {}
        self.asked: list[tuple[str, ...]] = []

    def __call__(self, *args: str, stdin: str | bytes | None = None, why: str = "", timeout: float = 300) -> str:
        self.asked.append(args)
        if args[0] == "cp":
            self.brought[args[2].partition(":")[0]] = stdin
        match args:
            case ("ps", *_):
                label = args[args.index("--filter") + 1].removeprefix("label=")
                name = label.partition("=")[2]
                return json.dumps([box for box in self.boxes.values() if name in ("", box["Labels"][LABEL])])
            case ("create", *_):
                name = args[args.index("--name") + 1]
                pairs = (arg.removeprefix("--label=").split("=", 1) for arg in args if arg.startswith("--label="))
                self.boxes[name] = {"Id": name, "State": "created", "Labels": dict(pairs)}
            case ("start", name):
                self.boxes[name]["State"] = "running"
            case ("rm", *_):
                for name in [arg for arg in args if arg in self.boxes]:
                    del self.boxes[name]
            case ("network", "create", *_):
                subnet = args[args.index("--subnet") + 1]
                self.nets[args[-1]] = {"subnets": [{"subnet": subnet}], "network_interface": "podman9"}
            case ("network", "ls", *_):
                return " ".join(self.nets)
            case ("network", "rm", *_):
                del self.nets[args[-1]]
        return ""

    def network(self, name: str) -> dict[str, Any] | None:
        return self.nets.get(name)

    def count(self, verb: str) -> int:
        return sum(args[0] == verb for args in self.asked)


@pytest.fixture
def podman(monkeypatch: pytest.MonkeyPatch, tmp_path: Any) -> FakePodman:
    """A podman without containers, and no real SSH, image or state folder."""
    monkeypatch.setattr(nodes, "STATE", tmp_path / "lab")
    monkeypatch.setattr(nodes, "state_of", lambda lab: tmp_path / "lab" / lab)
    monkeypatch.setattr(nodes, "ssh_config_of", lambda lab: tmp_path / "lab" / lab / "ssh_config")
    monkeypatch.setattr(image, "ensure", lambda _podman, release: f"image:{release}")
    monkeypatch.setattr(archives, "ensure", lambda _podman, release: tmp_path / release)
    monkeypatch.setattr(ssh, "public_key", lambda _lab: "ssh-ed25519 KEY")

    def write_config(lab: str, *_: Any) -> None:
        path = tmp_path / "lab" / lab / "ssh_config"
        path.parent.mkdir(parents=True, exist_ok=True)
        path.touch()

    monkeypatch.setattr(ssh, "write_config", write_config)
    monkeypatch.setattr(ssh, "wait", lambda *_: None)
    return FakePodman()
