"""A machine whose GPUs have MIG: its nvidia-smi and its /proc. Written after NVIDIA's MIG user guide, not recorded on a GPU."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path

from ansible_collections.bedplate.cluster.plugins.module_utils.gpu.mig_program import MigError, ProcFiles, main

ON, OFF = "Enabled", "Disabled"


@dataclass
class Card:
    bus: str
    mode: str = OFF
    pending: str = ""
    # The profile of each GPU instance; one in `bare` has no compute instance.
    instances: list[str] = field(default_factory=list)
    bare: list[str] = field(default_factory=list)

    @property
    def address(self) -> str:
        return f"0000:{self.bus}:00.0"


class Machine:
    """Answers as the driver would; `resets`: a new mode is in force at once."""

    def __init__(self, root: Path, *cards: Card, resets: bool = True) -> None:
        # The driver's minors are in another order than the addresses.
        self.root, self.cards, self.resets = root, list(cards), resets
        self.minors = {card.address: number for number, card in enumerate(reversed(cards))}
        self.changes: list[str] = []
        self.fails: dict[str, str] = {}
        (root / "proc").mkdir(exist_ok=True)
        self._write()

    def smi(self, arguments: Sequence[str]) -> str:
        words = list(arguments)
        for part, why in self.fails.items():
            if part in words:
                raise MigError(why)
        if words == ["-L"]:
            return self._listing()
        if words[0].startswith("--query-gpu"):
            return "".join(
                f"0000{card.address.upper()}, GPU-{card.bus}, {card.mode}, {card.pending or card.mode}\n"
                for card in reversed(self.cards)
            )
        self.changes.append(" ".join(words))
        card = next(one for one in self.cards if one.address in words)
        if "-mig" in words:
            self._mode(card, ON if words[-1] == "1" else OFF)
        elif "-cgi" in words:
            if card.mode != ON or card.instances or card.bare:
                raise MigError("Insufficient Resources")
            card.instances = words[words.index("-cgi") + 1].split(",")
        elif "-dci" in words:
            card.bare, card.instances = [*card.bare, *card.instances], []
        elif "-dgi" in words:
            if card.instances:
                raise MigError("In use by another client")
            card.bare = []
        self._write()
        return "All done.\n"

    def _mode(self, card: Card, mode: str) -> None:
        card.pending = mode
        if self.resets:
            card.mode = mode

    def _listing(self) -> str:
        text = ""
        for number, card in enumerate(reversed(self.cards)):
            text += f"GPU {number}: NVIDIA H100 80GB HBM3 (UUID: GPU-{card.bus})\n"
            for index, name in enumerate(card.instances):
                text += f"  MIG {name}     Device  {index}: (UUID: MIG-{card.bus}-{index})\n"
        return text

    def _write(self) -> None:
        for card in self.cards:
            minor = self.minors[card.address]
            at = self.root / f"proc/driver/nvidia/gpus/{card.address}"
            at.mkdir(parents=True, exist_ok=True)
            (at / "information").write_text(f"Model: \t\t NVIDIA H100\nDevice Minor: \t {minor}\n")
            base = self.root / f"proc/driver/nvidia/capabilities/gpu{minor}/mig"
            for old in sorted(base.rglob("*"), reverse=True):
                old.rmdir()
            for number, name in enumerate([*card.instances, *card.bare]):
                (base / f"gi{number}" / ("ci0" if number < len(card.instances) else "")).mkdir(parents=True)
                assert name

    def process(self, number: int, name: str, *files: str) -> None:
        at = self.root / f"proc/{number}/fd"
        at.mkdir(parents=True)
        (at.parent / "comm").write_text(f"{name}\n")
        for index, file in enumerate(files):
            (at / str(index)).symlink_to(file)

    def run(self, text: str) -> tuple[int, list[str]]:
        """Run the program with a layout; return how it ended, and the commands that changed something."""
        path = self.root / "layout.json"
        path.write_text(text)
        self.changes = []
        return main([str(path)], self.smi, ProcFiles(self.root)), self.changes

    @property
    def note(self) -> str:
        path = self.root / "run/bedplate/reboot-wanted/mig"
        return path.read_text() if path.exists() else ""
