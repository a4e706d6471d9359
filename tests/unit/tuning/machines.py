"""Trees of machines with a boot loader, and what stands in for update-grub on them."""

from __future__ import annotations

from pathlib import Path

from ansible_collections.bedplate.cluster.plugins.module_utils.common.command import Outcome
from ansible_collections.bedplate.cluster.plugins.module_utils.tuning.boot import grub_scripts
from ansible_collections.bedplate.cluster.plugins.module_utils.tuning.boot.cmdline_change import apply_tokens
from ansible_collections.bedplate.cluster.plugins.module_utils.tuning.boot.cmdline_tokens import CmdlineError

SETTINGS = 'GRUB_DEFAULT=0\nGRUB_CMDLINE_LINUX_DEFAULT="quiet"\nGRUB_CMDLINE_LINUX=""\n'
ROOT = "root=UUID=6f0c ro"
ENTRY = """title Rocky Linux (5.14.0-427.el9.x86_64) 9.4 (Blue Onyx)
version 5.14.0-427.el9.x86_64
linux /vmlinuz-5.14.0-427.el9.x86_64
initrd /initramfs-5.14.0-427.el9.x86_64.img $tuned_initrd
options {}
grub_users $grub_users
"""


class Machine:
    """A tree with files, and the calls of the commands that would run there."""

    def __init__(self, root: Path, files: dict[str, str]) -> None:
        self.root = root
        self.calls: list[list[str]] = []
        self.fails = ""
        self.drops = ""
        for name, text in files.items():
            self.put(name, text)

    def put(self, name: str, text: str) -> None:
        path = self.root / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(text.encode())

    def get(self, name: str) -> str:
        return (self.root / name).read_bytes().decode()

    def boots(self, text: str) -> None:
        self.put("proc/cmdline", f"BOOT_IMAGE=/vmlinuz {text}\n")

    def apply(self, *tokens: str, check: bool = False) -> dict:
        return apply_tokens(self.root, tokens, self.root / "var/lib/bedplate", check, self.run)

    def run(self, argv: list[str]) -> Outcome:
        """Stand in for update-grub: the settings are read by the real sh, and the lines are those of 10_linux."""
        self.calls.append(argv)
        if self.fails:
            return Outcome(1, "", self.fails)
        own = self.root / "etc/default/grub.d/zz-bedplate.cfg"
        line = grub_scripts.evaluated(grub_scripts.settings(self.root, own)).replace(self.drops or "\0", "")
        entry = f"\tlinux\t/vmlinuz-6.12 {ROOT} {line}\n"
        self.put(
            "boot/grub/grub.cfg",
            f"### BEGIN /etc/grub.d/10_linux ###\nmenuentry x {{\n{entry}}}\n\t{entry}### END /etc/grub.d/10_linux ###\n"
            "### BEGIN /etc/grub.d/30_os-prober ###\nlinux /other iommu=off\n### END /etc/grub.d/30_os-prober ###\n",
        )
        return Outcome(0, "", "done")

    def said_of(self, error: CmdlineError) -> list[str]:
        """Return the problems without the place of this tree."""
        return [text.replace(str(self.root), "") for text in error.problems]

    def tree(self) -> dict[str, bytes]:
        return {
            str(path.relative_to(self.root)): path.read_bytes()
            for path in sorted(self.root.rglob("*"))
            if path.is_file() and "proc" not in path.parts
        }


def debian(root: Path, settings: str = SETTINGS) -> Machine:
    machine = Machine(root, {"etc/default/grub": settings, "usr/sbin/update-grub": "", "boot/grub/unicode.pf2": ""})
    machine.run([])
    machine.calls.clear()
    machine.boots(f"{ROOT} quiet")
    return machine


def el9(root: Path, options: str = f"{ROOT} crashkernel=1G $tuned_params") -> Machine:
    machine = Machine(
        root,
        {
            "boot/loader/entries/a-5.14.conf": ENTRY.format(options),
            "boot/loader/entries/a-0-rescue.conf": ENTRY.format(options),
            "boot/grub2/grub.cfg": "insmod blscfg\nblscfg\n",
            "etc/default/grub": 'GRUB_CMDLINE_LINUX="crashkernel=1G"\nGRUB_ENABLE_BLSCFG=true\n',
            "etc/kernel/cmdline": f"{ROOT} crashkernel=1G\n",
        },
    )
    machine.boots(f"{ROOT} crashkernel=1G")
    return machine


def el8(root: Path, options: str = f"{ROOT} crashkernel=auto ") -> Machine:
    escaped = options.replace("\\", "\\\\")
    grubenv = f"# GRUB Environment Block\nsaved_entry=a-4.18\nkernelopts={escaped}\nboot_success=0\n"
    machine = Machine(
        root,
        {
            "boot/loader/entries/a-4.18.conf": ENTRY.format("$kernelopts $tuned_params"),
            "boot/efi/EFI/redhat/grub.cfg": "### BEGIN /etc/grub.d/10_linux ###\ninsmod blscfg\n",
            "boot/efi/EFI/redhat/grubenv": grubenv.ljust(1024, "#"),
            "etc/default/grub": 'GRUB_CMDLINE_LINUX="crashkernel=auto"\nGRUB_ENABLE_BLSCFG=true',
        },
    )
    (root / "boot/grub2").mkdir()
    (root / "boot/grub2/grubenv").symlink_to("../efi/EFI/redhat/grubenv")
    machine.boots(options)
    return machine
