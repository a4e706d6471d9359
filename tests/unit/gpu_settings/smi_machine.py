"""A machine with GPUs: what its nvidia-smi prints and its /proc. Written after output in public texts, not recorded on a GPU."""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from ansible_collections.bedplate.cluster.plugins.module_utils.common.command import Outcome
from ansible_collections.bedplate.cluster.plugins.module_utils.gpu.devices.gpu_users import GpuUsers
from ansible_collections.bedplate.cluster.plugins.module_utils.gpu_settings import apply_settings, smi_settings
from ansible_collections.bedplate.cluster.plugins.module_utils.primitives import reboot_notes

LOST, NOT_AVAILABLE = "[GPU is lost]", "[N/A]"


@dataclass
class Card:
    bus: str
    power: float = 700
    # Another limit, such as the BMC's.
    most: float = 700
    mode: str = "Default"
    ecc: str = "Enabled"
    pending: str = "Enabled"
    graphics: int = 1980
    memory: int = 2619
    lost: bool = False
    # Reports success for a power limit, and keeps the old one.
    deaf: bool = False
    unknown_power: bool = False
    unknown_enforced: bool = False
    unknown_clocks: bool = False
    # nvidia-smi prints what the GPU lacks as a warning, and ends with 0.
    lacks: str = ""

    @property
    def address(self) -> str:
        return f"0000:{self.bus}:00.0"

    def row(self) -> str:
        limit = NOT_AVAILABLE if self.unknown_power else f"{self.power:.2f}"
        enforced = NOT_AVAILABLE if self.unknown_enforced else f"{min(self.power, self.most):.2f}"
        clocks = [NOT_AVAILABLE] * 2 if self.unknown_clocks else [str(self.graphics), str(self.memory)]
        values = [limit, enforced, self.mode, self.ecc, self.pending, *clocks]
        return ", ".join([f"0000{self.address.upper()}", *([LOST] * len(values) if self.lost else values)]) + "\n"


class Machine:
    """Answers as the driver would."""

    def __init__(self, root: Path, *cards: Card) -> None:
        self.root, self.cards = root, list(cards)
        self.changes: list[str] = []
        self.hangs = False
        for number, card in enumerate(reversed(cards)):
            at = root / f"proc/driver/nvidia/gpus/{card.address}"
            at.mkdir(parents=True)
            (at / "information").write_text(f"Model: \t\t NVIDIA H100\nDevice Minor: \t {number}\n")
        (root / "sys/module/nvidia").mkdir(parents=True)

    def answer(self, argv: Sequence[str], seconds: float = 0) -> Outcome:
        """Stand for `command.run`."""
        assert argv[0] == "nvidia-smi"
        if self.hangs:
            return Outcome(None, "", "")
        words = list(argv[1:])
        if words[0].startswith("--query-gpu="):
            assert words == [f"--query-gpu={','.join(smi_settings.QUERY)}", "--format=csv,noheader,nounits"]
            # Not in the order of addresses.
            return Outcome(0, "".join(card.row() for card in reversed(self.cards)), "")
        self.changes.append(" ".join(words[1:]))
        card = next(one for one in self.cards if one.address == words[1])
        return self._set(card, words[2])

    def _set(self, card: Card, word: str) -> Outcome:
        option, _, value = word.partition("=")
        if card.lacks and card.lacks in option:
            text = f"Setting {card.lacks} is not supported for GPU 0000{card.address.upper()}.\nTreating as warning and moving on.\n"
            return Outcome(0, f"{text}All done.\n", "")
        if option == "--power-limit":
            if not 200 <= float(value) <= 700:
                text = f"Provided power limit {value}.00 W is not a valid power limit which should be between 200.00 W and 700.00 W"
                return Outcome(
                    3, f"{text} for GPU 0000{card.address.upper()}\nTerminating early due to previous errors.\n", ""
                )
            card.power = card.power if card.deaf else float(value)
        elif option == "--compute-mode":
            card.mode = {"DEFAULT": "Default", "EXCLUSIVE_PROCESS": "Exclusive_Process"}[value]
        elif option == "--ecc-config":
            card.pending = "Enabled" if value == "1" else "Disabled"
        elif option == "--lock-gpu-clocks":
            assert re.fullmatch(r"\d+,\d+", value)
            card.graphics = min(card.graphics, int(value.split(",")[1]))
        else:
            assert option == "--lock-memory-clocks"
            card.memory = int(value)
        return Outcome(0, "All done.\n", "")

    def boot(self) -> None:
        """Load the driver anew: it forgets limit, clocks and mode, ECC is in force, /run and processes are gone."""
        for card in self.cards:
            card.power, card.mode, card.ecc, card.graphics = 700, "Default", card.pending, 1980
        reboot_notes.note(self.root / apply_settings.NOTE, "", check=False)
        (self.root / apply_settings.RECORD).unlink(missing_ok=True)
        self.reload()

    def reload(self) -> None:
        """Give the module another inode, with the old one in use so that the file system does not give it again."""
        at = self.root / "sys/module/nvidia"
        at.rename(at.with_name(f"nvidia.{at.stat().st_ino}"))
        at.mkdir()

    def process(self, number: int, name: str, *files: str) -> None:
        at = self.root / f"proc/{number}/fd"
        at.mkdir(parents=True)
        (at.parent / "comm").write_text(f"{name}\n")
        for index, file in enumerate(files):
            (at / str(index)).symlink_to(file)

    def run(self, text: str) -> tuple[int, list[str]]:
        """Run the program with a file; return how it ended, and the commands that changed something."""
        path = self.root / "settings.json"
        path.write_text(text)
        self.changes = []
        return apply_settings.main([str(path)], node=GpuUsers(self.root)), self.changes

    @property
    def note(self) -> str:
        path = self.root / apply_settings.NOTE
        return path.read_text() if path.exists() else ""
