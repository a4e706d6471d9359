# SPDX-License-Identifier: GPL-3.0-or-later
"""The few commands of podman that the lab uses."""

from __future__ import annotations

import json
from dataclasses import dataclass
from typing import Any

from lab.host import Choice
from lab.shell import capture, succeeds

LABEL = "bedplate.lab"
"""Every container and network of a lab carries its name here: what is removed is found by it, never guessed."""


@dataclass(frozen=True)
class Container:
    """A container of a lab as podman knows it."""

    id: str
    machine: str
    running: bool
    spec: str
    checkout: str
    lab: str


class Podman:
    """`podman`, with the options this machine needs."""

    def __init__(self, choice: Choice) -> None:
        self.choice = choice

    def __call__(self, *args: str, stdin: str | bytes | None = None, why: str = "", timeout: float = 300) -> str:
        """Run podman and return its output."""
        return capture(["podman", *self.choice.podman, *args], stdin=stdin, why=why, timeout=timeout)

    def containers(self, lab: str | None = None) -> list[Container]:
        """List the containers of one lab, or of all labs."""
        label = LABEL if lab is None else f"{LABEL}={lab}"
        listing: list[dict[str, Any]] = json.loads(
            self("ps", "--all", "--filter", f"label={label}", "--format", "json") or "[]"
        )
        return [
            Container(
                id=entry["Id"],
                machine=entry["Labels"][f"{LABEL}.machine"],
                running=entry["State"] == "running",
                spec=entry["Labels"][f"{LABEL}.spec"],
                checkout=entry["Labels"][f"{LABEL}.checkout"],
                lab=entry["Labels"][LABEL],
            )
            for entry in listing or []
        ]

    def networks(self, lab: str | None = None) -> list[str]:
        """Names of the networks of one lab, or of all labs."""
        label = LABEL if lab is None else f"{LABEL}={lab}"
        return self("network", "ls", "--filter", f"label={label}", "--format", "{{.Name}}").split()

    def network(self, name: str) -> dict[str, Any] | None:
        """Return podman's description of a network."""
        if not succeeds(["podman", "network", "exists", name]):
            return None
        described: list[dict[str, Any]] = json.loads(self("network", "inspect", name))
        return described[0]

    def has_image(self, reference: str) -> bool:
        """Return True if an image exists."""
        return succeeds(["podman", *self.choice.podman, "image", "exists", reference])
