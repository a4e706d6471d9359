"""1,000 generated starting files: others' tokens stay as they are, ours are exactly as wanted, and go without a trace.

GRUB's settings are evaluated by the real /bin/sh, all in one process, as grub-mkconfig sources them.
"""

from __future__ import annotations

import os
import subprocess
from dataclasses import dataclass, replace
from pathlib import Path

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from ansible_collections.bedplate.cluster.plugins.module_utils.tuning.boot import (
    boot_entries,
    cmdline_tokens,
    grub_scripts,
)
from ansible_collections.bedplate.cluster.plugins.module_utils.tuning.boot.boot_entries import CommandLines, FileLines
from tests.unit.tuning.machines import Machine, debian, el8, el9

# Words as GRUB's scripts have them -> what they say. The first ones have keys that may become ours.
WORDS = {
    "iommu=soft": "iommu=soft", "iommu=pt": "iommu=pt", "iommu": "iommu", '"iommu=off"': "iommu=off", 'io"mmu"=x': "iommu=x",
    "'iommu=o ff'": "iommu=o ff", "transparent-hugepage=always": "transparent-hugepage=always", r"iom\mu=1": "iommu=1",
    "transparent_hugepage=madvise": "transparent_hugepage=madvise", "hugepagesz=1G": "hugepagesz=1G", "hugepages=3": "hugepages=3",
    "isolcpus=1-3": "isolcpus=1-3", 'isolcpus="2"': "isolcpus=2", r"memmap=1G\$2G": "memmap=1G$2G",
    "quiet": "quiet", "ro": "ro", "crashkernel=1G-4G:192M,4G-:256M": "crashkernel=1G-4G:192M,4G-:256M", "console=tty0": "console=tty0",
    "console=ttyS0,115200n8": "console=ttyS0,115200n8", r"\$vt_handoff": "$vt_handoff", 'a="b iommu=x c"': "a=b iommu=x c",
    "'b  c\td'": "b  c\td", r"x\ iommu=1": "x iommu=1", r'q="a \" iommu=2"': 'q=a " iommu=2', "xiommu=1": "xiommu=1",
    "iommu.strict=1": "iommu.strict=1", "nvme_core.io_timeout=4": "nvme_core.io_timeout=4", "=": "=", "*": "*", "[a-z]?": "[a-z]?",
    "~": "~", "iommu[-]x=1": "iommu[-]x=1", '""': "", "-": "-", "é=ü": "é=ü", "%s": "%s", "'$HOME'": "$HOME", "a=b=c": "a=b=c",
    "pci=nocrs": "pci=nocrs", "pci=noaer,realloc=off": "pci=noaer,realloc=off", '"pci=realloc,,nomsi"': "pci=realloc,,nomsi", "pci": "pci",
    r"pci=use_cr\s": "pci=use_crs", "pcie_aspm=off": "pcie_aspm=off", 'x="pci=nocrs y"': "x=pci=nocrs y",
}  # fmt: skip
WANTED = [
    [], ["iommu=pt"], ["isolcpus=managed_irq,domain,1-3", "iommu=pt"], ["transparent_hugepage=madvise", "init_on_alloc=0"],
    ["hugepagesz=2M", "hugepages=0:16,1:8", "hugepagesz=1G", "hugepages=0:16,1:8"], ["numa_balancing=disable", "quiet"],
    ["iommu.strict=0"], ["hugepagesz=2M"],
    ['dyndbg="file a.c +p"', "xiommu=2"], ["console=tty1", "console=tty0"], ["memmap=4G$8G", "iommu=pt"],
    ["pci=realloc"], ["pci=nocrs", "iommu=pt"], ["pci=realloc=on,noaer"],
]  # fmt: skip
PLAIN = [one for one in WANTED if "memmap=4G$8G" not in one]
GAPS = [" ", "  ", "\t", " \t "]


@dataclass(frozen=True)
class Case:
    """Two lists of words with what is around them, and what is wanted first and afterwards."""

    common: list[str]
    default: list[str]
    gap: str
    trail: str
    form: int
    end: str
    wanted: list[str]
    later: list[str]

    def text(self, words: list[str]) -> str:
        return self.gap.join(words) + self.trail

    def settings(self) -> str:
        """Return an /etc/default/grub that says so in one of several ways."""
        quote = quoted if self.form % 2 else double
        common, default = self.text(self.common), self.text(self.default)
        lines = [
            "# GRUB_CMDLINE_LINUX=iommu=no",
            f"GRUB_CMDLINE_LINUX={quote(common)}",
            "\tGRUB_TIMEOUT=5 # s",
            f"GRUB_CMDLINE_LINUX_DEFAULT={quote(default)}",
        ]
        if self.form // 2 % 2:
            lines[1:] = lines[:0:-1]
        if self.form // 4 % 2 and self.default:
            lines.append(f"GRUB_CMDLINE_LINUX_DEFAULT={quote(self.text(self.default[:1]))}")
            lines.append(
                f'GRUB_CMDLINE_LINUX_DEFAULT="$GRUB_CMDLINE_LINUX_DEFAULT "{quote(self.text(self.default[1:]))}'
            )
        if self.form // 8 % 2 and not self.common:
            lines = [line for line in lines if not line.startswith("GRUB_CMDLINE_LINUX=")]
        return "\n".join(lines) + self.end


def quoted(text: str) -> str:
    return "'" + text.replace("'", "'\\''") + "'"


def double(text: str) -> str:
    return '"' + "".join(f"\\{char}" if char in '\\"$`' else char for char in text) + '"'


def cases(wanted: list[list[str]]) -> st.SearchStrategy[Case]:
    words = st.lists(st.sampled_from([*WORDS, "--"]), max_size=7)
    ours = st.sampled_from(wanted)
    end = st.sampled_from(["\n", "", "\n\n"])
    return st.builds(
        Case, words, words, st.sampled_from(GAPS), st.sampled_from(["", " "]), st.integers(0, 15), end, ours, ours
    )


def others(words: list[str], wanted: list[str]) -> tuple[list[str], list[str]]:
    """Return, by the names alone, what stays of which words, and which of them come after ``--``."""
    end = words.index("--") if "--" in words else len(words)
    families = {one for token in wanted for one in names(token)}
    return [left for word in words[:end] if (left := stays(word, families))], words[end:]


def stays(word: str, families: set[str]) -> str:
    found = names(WORDS[word])
    if not families.intersection(found):
        return word
    options = [one for one in WORDS[word].removeprefix("pci=").split(",") if one and name(one) not in families]
    return f"pci={','.join(options)}" if found[0].startswith("pci ") and options else ""


def names(said: str) -> list[str]:
    """Return the name of a token, of pci= those of its options."""
    return [name(one) for one in said[4:].split(",") if one] if said.startswith("pci=") else [name(said)]


def name(said: str) -> str:
    key = said.split("=")[0].replace("-", "_")
    options = {
        "nocrs": "pci crs",
        "use_crs": "pci crs",
        "noaer": "pci aer",
        "realloc": "pci realloc",
        "nomsi": "pci msi",
    }
    return options.get(key) or {"hugepagesz": "hugepages"}.get(key, key)


def raws(text: str) -> list[str]:
    return [word.raw for word in cmdline_tokens.split(text, grub=True)]


def expected(case: Case, own: list[str]) -> list[str]:
    head, rest = others(case.common, case.wanted)
    if rest:  # then all that follows is for init
        return [*head, *own, *rest, *case.default]
    second, tail = others(case.default, case.wanted)
    return [*head, *own, *second, *tail]


def check_entries(case: Case) -> None:
    """Entries are pure text, so they are checked here, one by one."""
    words = [*case.common, *case.default]
    text = f"title x\noptions{case.gap}{case.text(words)}\nlinux /y{case.end}"
    states = [text]
    seen: CommandLines | None = None
    own: list[cmdline_tokens.Token] = []
    for asked in (case.wanted, case.wanted, case.later, []):
        lines = FileLines(boot_entries.ENTRY, states[-1], grub=True)
        tokens = cmdline_tokens.parse(asked)
        base = boot_entries.original_lines(lines, seen, own)
        after, _back = boot_entries.planned_lines(lines, base, tokens)
        states.append(lines.with_values(after))
        seen, own = CommandLines(base, replace(lines, text=states[-1]).values), tokens
        head, rest = others(words, asked)
        assert raws(states[-1].splitlines()[1]) == ["options", *head, *asked, *rest], (case, asked)
    assert states[1] == states[2], case
    assert states[4] == text, case


def test_a_thousand_starting_files(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    collected: list[Case] = []

    @settings(max_examples=1000, deadline=None, database=None, suppress_health_check=list(HealthCheck))
    @given(cases(PLAIN))
    def collect(case: Case) -> None:
        check_entries(case)
        collected.append(case)

    collect()
    assert len(collected) >= 1000
    for number, wanted in enumerate(PLAIN):
        (tmp_path / f"{number}.cfg").write_text(
            grub_scripts.shell(cmdline_tokens.parse(wanted)) if wanted else "", encoding="utf-8"
        )
    script = [
        "unset GRUB_CMDLINE_LINUX GRUB_CMDLINE_LINUX_DEFAULT\n"
        f'{case.settings()}\n. ./{PLAIN.index(case.wanted)}.cfg\nprintf "%s\\n" "$GRUB_CMDLINE_LINUX $GRUB_CMDLINE_LINUX_DEFAULT"\n'
        for case in collected
    ]
    for sh, several in (("/bin/sh", collected), ("bash", collected[:100])):  # EL's sh is bash
        done = subprocess.run(
            [sh, "-e"],
            input="".join(script[: len(several)]),
            capture_output=True,
            text=True,
            cwd=tmp_path,
            timeout=60,
            check=True,
        )
        found = done.stdout.splitlines()
        assert (len(found), done.stderr) == (len(several), "")
        for case, line in zip(several, found, strict=True):
            own = [token.for_grub for token in cmdline_tokens.merged(cmdline_tokens.parse(case.wanted))]
            assert raws(line) == expected(case, own), (sh, case, line)


@settings(max_examples=10, deadline=None, database=None)
@given(case=cases(WANTED))
@pytest.mark.parametrize("make", [debian, el8, el9])
def test_whole_machines_come_and_go_without_a_trace(tmp_path_factory: pytest.TempPathFactory, make, case: Case) -> None:
    root = tmp_path_factory.mktemp("machine")
    words = [*case.common, *case.default]
    machine: Machine = make(root) if make is debian else make(root, case.text(words) or "ro")
    machine.put("etc/default/grub", case.settings())
    machine.boots("")
    if make is debian:
        machine.run([])
    before = machine.tree()
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(os, "fsync", lambda descriptor: None)
        refused = make is not debian and "memmap=4G$8G" in [*case.wanted, *case.later]
        for wanted in (case.wanted, case.later):
            if refused:
                break
            machine.apply(*wanted)
            assert not machine.apply(*wanted)["changed"]
        machine.apply()
    assert machine.tree() == before
