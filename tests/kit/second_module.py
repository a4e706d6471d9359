"""A kernel module of a site beside the driver, such as a file system, that the real DKMS has for the kernel that runs."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any

NAME, VERSION = "sitefs", "1.0"
_SOURCE = f"/usr/src/{NAME}-{VERSION}"
_CONF = f"""\
PACKAGE_NAME="{NAME}"
PACKAGE_VERSION="{VERSION}"
BUILT_MODULE_NAME[0]="{NAME}"
DEST_MODULE_LOCATION[0]="/updates/dkms"
AUTOINSTALL="yes"
MAKE[0]="make -C ${{kernel_source_dir}} M=${{dkms_tree}}/{NAME}/{VERSION}/build modules"
"""
_CODE = """\
#include <linux/module.h>
#ifdef BROKEN
#error this kernel is too new
#endif
MODULE_LICENSE("GPL");
"""


@dataclass(frozen=True)
class SecondModule:
    """The module on a machine (testinfra's host)."""

    host: Any

    def break_it(self) -> None:
        """Let it compile for no later kernel."""
        self.host.check_output(f"sed --in-place 's/^obj-m/ccflags-y := -DBROKEN\\n&/' {_SOURCE}/Makefile")

    def mend(self) -> None:
        """Let it compile again."""
        self.host.check_output(f"sed --in-place /BROKEN/d {_SOURCE}/Makefile")

    def is_built_for(self, kernel: str) -> bool:
        """Return whether DKMS has it installed for a kernel."""
        return f"{NAME}/{VERSION}, {kernel}, x86_64: installed" in self.host.check_output("dkms status")


@contextmanager
def second_module(host: Any) -> Iterator[SecondModule]:
    """Install the module for the running kernel, and remove it at the end.

    The kernel is that of the machine below a container; it is compiled against the newest headers in the container.
    """
    files = {"dkms.conf": _CONF, "Makefile": f"obj-m := {NAME}.o\n", f"{NAME}.c": _CODE}
    host.check_output(f"mkdir {_SOURCE}")
    try:
        for path, text in files.items():
            host.check_output(f"cat >{_SOURCE}/{path} <<'END'\n{text}END\n")
        kernel = host.check_output("uname -r")
        headers = host.check_output("ls -d /usr/src/linux-headers-*-amd64 | sort --version-sort | tail -n 1")
        host.check_output(f"mkdir -p /lib/modules/{kernel}")
        host.check_output(f"dkms install -m {NAME} -v {VERSION} -k {kernel} --kernelsourcedir {headers} --force")
        module = SecondModule(host)
        assert module.is_built_for(kernel)
        yield module
    finally:
        host.run(f"dkms remove -m {NAME} -v {VERSION} --all; rm -rf {_SOURCE}")
