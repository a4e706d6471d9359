"""What the real grub-mkconfig, 10_linux and grub-script-check make of the drop-in.

Debian's own scripts, with the paths of a tree; only grub-probe, which wants real disks, is a stand-in.
"""

from __future__ import annotations

import os
import shutil
from pathlib import Path

import pytest

from ansible_collections.bedplate.cluster.plugins.module_utils.common import command
from ansible_collections.bedplate.cluster.plugins.module_utils.common.command import Outcome
from ansible_collections.bedplate.cluster.plugins.module_utils.tuning.boot import grub_scripts
from ansible_collections.bedplate.cluster.plugins.module_utils.tuning.boot.cmdline_tokens import CmdlineError, tokens
from tests.unit.tuning.machines import Machine, debian

PROBE = '#!/bin/sh\ncase "$*" in *target=device*) echo /dev/sda1;; *fs_uuid*) echo 6f0c;; *) echo ext2;; esac\n'
SETTINGS = """GRUB_DEFAULT=0
GRUB_DISTRIBUTOR=`echo Debian`
GRUB_TERMINAL=console
GRUB_CMDLINE_LINUX_DEFAULT="quiet transparent_hugepage=always note='two words' \\$later"
GRUB_CMDLINE_LINUX="console=ttyS0,115200n8 \\"dyndbg=file b.c +p\\""
"""


class Debian(Machine):
    """A tree on which the real grub-mkconfig runs."""

    def run(self, argv: list[str]) -> Outcome:
        return command.run([str(self.root / "grub-mkconfig"), "-o", str(self.root / "boot/grub/grub.cfg")])


def program(name: str) -> Path:
    found = shutil.which(name, path=command.SEARCH_PATH)
    assert found
    return Path(found).resolve()  # /sbin is a link


@pytest.fixture
def machine(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Debian:
    debian(tmp_path, SETTINGS)
    made = Debian(tmp_path, {"boot/vmlinuz-6.12.57": "MZ", "boot/initrd.img-6.12.57": "", "boot/config-6.12.57": ""})
    mkconfig = program("grub-mkconfig")
    prefix = mkconfig.parent.parent
    for path, name in ((mkconfig, "grub-mkconfig"), (prefix.parent / "etc/grub.d/10_linux", "etc/grub.d/10_linux")):
        text = (
            path.read_text()
            .replace(" /boot/", f" {tmp_path}/boot/")
            .replace('sysconfdir="/etc"', f'sysconfdir="{tmp_path}/etc"')
        )
        text = text.replace('grub_probe="${sbindir}/grub-probe"', f'grub_probe="{tmp_path}/grub-probe"')
        made.put(name, text.replace('"${bindir}/', f'"{prefix}/bin/'))
    made.put("grub-probe", PROBE)
    made.put("relative", '#!/bin/sh\necho "$1"\n')
    for name in ("grub-mkconfig", "etc/grub.d/10_linux", "grub-probe", "relative"):
        (tmp_path / name).chmod(0o755)
    # The scripts look whether they are run by root, and take these from the environment.
    for key, value in {
        "EUID": "0",
        "pkgdatadir": f"{prefix}/share/grub",
        "grub_mkrelpath": f"{tmp_path}/relative",
        "grub_probe": "x",
    }.items():
        monkeypatch.setitem(os.environ, key, value)
    return made


@pytest.mark.tools("grub-mkconfig", "grub-script-check")
def test_the_real_grub_mkconfig_gives_every_kernel_the_tokens(machine: Debian) -> None:
    assert machine.run([]).code == 0
    before = machine.tree()
    wanted = [
        "iommu=pt",
        "hugepagesz=2M",
        "hugepages=0:16,1:8",
        "transparent_hugepage=madvise",
        "memmap=4G$8G",
        'a="b $c; d"',
    ]
    assert machine.apply(*wanted)["changed"]
    lines = grub_scripts.kernel_lines(machine.get("boot/grub/grub.cfg"))
    said = [[str(token) for token in tokens(line, grub=True)] for line in lines]
    user = ["console=ttyS0,115200n8", 'dyndbg="file b.c +p"']
    late = ["quiet", 'note="two words"', "$later"]
    assert said[:2] == [["root=/dev/sda1", "ro", *user, *wanted, *late]] * 2
    assert said[2] == ["root=/dev/sda1", "ro", "single", *user, *wanted]  # recovery mode
    assert not machine.apply(*wanted)["changed"]
    assert machine.apply()["changed"]
    assert machine.tree() == before


@pytest.mark.tools("grub-mkconfig", "grub-script-check")
def test_a_grub_cfg_that_grub_cannot_read_leaves_everything_as_it_was(machine: Debian) -> None:
    machine.put("etc/grub.d/40_custom", "#!/bin/sh\necho 'menuentry {'\n")
    (machine.root / "etc/grub.d/40_custom").chmod(0o755)
    before = machine.tree()
    with pytest.raises(CmdlineError, match=r"Syntax errors .*GRUB"):
        machine.apply("iommu=pt")
    left = machine.tree()
    left.pop("boot/grub/grub.cfg.new")  # grub-mkconfig's own, for a look
    assert left == before
