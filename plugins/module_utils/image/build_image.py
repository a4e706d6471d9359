# SPDX-License-Identifier: GPL-3.0-or-later
"""Build one image of nodes, and the installer's kernel and initramfs from the same packages.

Usage: python3 -m ...image.build_image RECIPE.json OUT [--installer FOLDER] [--key MINISIGN_SECRET_KEY]

OUT gets image.img.zst (and .minisig), image.json, and the folder `boot`: vmlinuz, initrd.img, efi.img (of a medium), and the signed
loaders.
Needs root, for the chroot of mmdebstrap.
"""

from __future__ import annotations

import argparse
import hashlib
import json
import shutil
import sys
import tempfile
import time
import uuid
from pathlib import Path
from typing import Any

from . import disk
from .recipe import Recipe
from .tools import BuildError, call, need

PROGRAMS = {
    "mmdebstrap": "mmdebstrap",
    "mke2fs": "e2fsprogs",
    "sfdisk": "fdisk",
    "mkfs.vfat": "dosfstools",
    "mcopy": "mtools",
    "zstd": "zstd",
}
"""Program -> Debian package that has it."""
INSTALLER = Path(__file__).parents[1] / "provision" / "installer"
"""Folder with finish.sh, hooks, scripts and lib, in a checkout. Ansible ships it to a provision host beside this program."""
_SHIM, _GRUB = "usr/lib/shim/{}", "usr/lib/grub/x86_64-efi-signed/{}"
_BOOT = {
    "shim.efi": _SHIM.format("shimx64.efi.signed"),
    "mm.efi": _SHIM.format("mmx64.efi.signed"),
    "grub.efi": _GRUB.format("grubx64.efi.signed"),
    "grub-cd.efi": _GRUB.format("gcdx64.efi.signed"),
    "grub-net.efi": _GRUB.format("grubnetx64.efi.signed"),
}
_PXE_MODULES = ("pxe", "tftp", "normal", "linux", "configfile", "test", "echo")
# A machine finds its configuration by the host name that DHCP has for it.
_PXE = "normal (tftp,$net_default_server)/$net_pxe_hostname/boot.cfg\n"
_MEDIUM_MIB = 16
_INITRAMFS = "etc/bedplate-installer"


def build(recipe: Recipe, out: Path, installer: Path = INSTALLER, key: Path | None = None) -> dict[str, object]:
    """Build an image into a folder, and return the content of image.json. Raises BuildError, OSError."""
    need({**PROGRAMS, **({"minisign": "minisign"} if key else {})})
    out.mkdir(parents=True, exist_ok=True)
    with tempfile.TemporaryDirectory(dir=out, prefix="build-") as scratch:
        # apt's own user of the new root must reach it.
        Path(scratch).chmod(0o755)
        root, raw = Path(scratch) / "root", Path(scratch) / "disk"
        identity = disk.Disk(0, str(uuid.uuid4()), uuid.uuid4().hex[:8].upper())
        _install(recipe, root, identity, installer)
        boot = out / "boot"
        _boot_files(recipe, root, boot, installer)
        used = int(call(["du", "-sxm", "--apparent-size", str(root)]).split()[0])
        # Metadata of ext4 and its journal, besides the files.
        mib = disk.ROOT_MIB + used + used // 8 + 32 + recipe.spare_mib
        plan = disk.Disk(mib * disk.MIB, identity.root_uuid, identity.esp_serial)
        disk.make(root, _esp(boot, root), raw, plan)
        facts = _pack(raw, out, recipe, key)
    (out / "image.json").write_text(json.dumps(facts, indent=2) + "\n")
    return facts


def _install(recipe: Recipe, root: Path, identity: disk.Disk, installer: Path) -> None:
    serial = f"{identity.esp_serial[:4]}-{identity.esp_serial[4:]}"
    arguments = " ".join([identity.root_uuid, serial, f"'{recipe.words}'", *recipe.units])
    call(
        [
            "mmdebstrap",
            "--mode=root",
            "--variant=minbase",
            "--format=directory",
            "--aptopt=Acquire::Languages none",
            '--dpkgopt=force-unsafe-io',
            *(f"--dpkgopt=path-exclude=/usr/share/{name}/*" for name in ("doc", "info", "locale", "man")),
            f"--include={','.join(recipe.installed)}",
            f'--customize-hook=chroot "$1" sh -s {arguments} <{installer / "finish.sh"}',
            '--customize-hook=rm -f "$1"/usr/sbin/policy-rc.d "$1"/etc/resolv.conf "$1"/etc/hostname',
            '--customize-hook=rm -f "$1"/etc/dpkg/dpkg.cfg.d/99mmdebstrap',
            recipe.release,
            str(root),
            *recipe.sources,
        ],
        1800,
    )  # fmt: skip


def _boot_files(recipe: Recipe, root: Path, boot: Path, installer: Path) -> None:
    """Copy kernel and signed loaders out of the root, and make the installer's initramfs with the root's own tools."""
    boot.mkdir(exist_ok=True)
    for name, source in _BOOT.items():
        shutil.copy(root / source, boot / name)
    loaders = {
        "EFI/BOOT/BOOTX64.EFI": "shim.efi",
        "EFI/BOOT/grubx64.efi": "grub-cd.efi",
        "EFI/BOOT/mmx64.efi": "mm.efi",
    }
    disk.fat_image(boot / "efi.img", _MEDIUM_MIB, {path: boot / name for path, name in loaders.items()}, "BED91A7E")
    kernel = max((root / "boot").glob("vmlinuz-*"))
    shutil.copy(kernel, boot / "vmlinuz")
    _pxe_loader(root, boot / "grub-pxe.0")
    make_initramfs(recipe, root, kernel.name.partition("-")[2], boot / "initrd.img", installer)


def _pxe_loader(root: Path, out: Path) -> None:
    """Make the GRUB that the PXE of a BIOS loads."""
    settings, made = root / "etc/bedplate-pxe.cfg", root / "etc/bedplate-pxe.0"
    settings.write_text(_PXE)
    places = [f"--config=/etc/{settings.name}", f"--output=/etc/{made.name}", "--prefix=/"]
    try:
        call(["chroot", str(root), "grub-mkimage", "--format=i386-pc-pxe", *places, *_PXE_MODULES])
        shutil.copy(made, out)
    finally:
        for left in (settings, made):
            left.unlink(missing_ok=True)


def make_initramfs(recipe: Recipe, root: Path, version: str, out: Path, installer: Path) -> None:
    """Make the installer's initramfs for a kernel of a root file system."""
    settings = root / _INITRAMFS
    shutil.copytree(root / "etc/initramfs-tools", settings, dirs_exist_ok=True)
    try:
        (settings / "conf.d").mkdir(exist_ok=True)
        (settings / "conf.d/bedplate").write_text(f"MODULES={recipe.modules}\nBUSYBOX=y\nCOMPRESS=zstd\nRESUME=none\n")
        (settings / "modules").write_text("\n".join(recipe.drivers) + "\n")
        shutil.copytree(installer / "hooks", settings / "hooks", dirs_exist_ok=True)
        shutil.copytree(installer / "scripts", settings / "scripts", dirs_exist_ok=True)
        shutil.copytree(installer / "lib", settings / "bedplate", dirs_exist_ok=True)
        for one in ("hooks/bedplate", "scripts/bedplate"):
            (settings / one).chmod(0o755)
        made = root / _INITRAMFS / "initrd.img"
        call(["chroot", str(root), "mkinitramfs", "-d", f"/{_INITRAMFS}", "-o", f"/{_INITRAMFS}/{made.name}", version])
        shutil.copy(made, out)
    finally:
        shutil.rmtree(settings)


def _esp(boot: Path, root: Path) -> dict[str, Path]:
    return {
        "EFI/BOOT/BOOTX64.EFI": boot / "shim.efi",
        "EFI/BOOT/grubx64.efi": boot / "grub.efi",
        "EFI/BOOT/mmx64.efi": boot / "mm.efi",
        "EFI/debian/grub.cfg": root / "boot/grub/esp.cfg",
    }


def _pack(raw: Path, out: Path, recipe: Recipe, key: Path | None) -> dict[str, object]:
    image = out / "image.img.zst"
    call(["zstd", "-q", "-f", "-T2", "-9", "--sparse", str(raw), "-o", str(image)], 900)
    if key:
        sign(image, key)
    return {
        "recipe": recipe.digest,
        "release": recipe.release,
        "packages": recipe.installed,
        "sha256": sha256(image),
        "bytes": image.stat().st_size,
        "raw_sha256": sha256(raw),
        "raw_bytes": raw.stat().st_size,
        "root_start": disk.ROOT_MIB * disk.MIB,
    }


def sign(image: Path, key: Path) -> None:
    """Sign an image with a secret key of minisign that has no password. Raises BuildError."""
    call(["minisign", "-S", "-s", str(key), "-m", str(image)])


def sha256(path: Path) -> str:
    """Return the SHA-256 of a file, in hexadecimal digits."""
    digest = hashlib.sha256()
    with path.open("rb") as stream:
        while part := stream.read(1 << 20):
            digest.update(part)
    return digest.hexdigest()


def main(arguments: list[str] | None = None) -> int:
    """Build the image of a recipe, and print its facts as JSON."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("recipe", type=Path)
    parser.add_argument("out", type=Path)
    parser.add_argument("--installer", type=Path, default=INSTALLER)
    parser.add_argument("--key", type=Path)
    chosen = parser.parse_args(arguments)
    started = time.monotonic()
    try:
        row: dict[str, Any] = {
            key: tuple(one) if isinstance(one, list) else one
            for key, one in json.loads(chosen.recipe.read_text()).items()
        }
        facts = build(Recipe(**row), chosen.out, chosen.installer, chosen.key)
    except (BuildError, OSError, TypeError, ValueError) as error:
        print(f"{chosen.recipe}: {error}", file=sys.stderr)
        return 1
    print(json.dumps({**facts, "seconds": round(time.monotonic() - started)}))
    return 0


if __name__ == "__main__":
    sys.exit(main())
