"""Which kernel boots next: by what is in /boot and what GRUB was told, in files as grub-mkconfig and grub-editenv write them."""

from __future__ import annotations

from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from ansible_collections.bedplate.cluster.plugins.module_utils.common.command import Outcome
from ansible_collections.bedplate.cluster.plugins.module_utils.gpu.driver import next_kernel as module
from ansible_collections.bedplate.cluster.plugins.module_utils.gpu.driver.dkms_steps import kernel_of
from ansible_collections.bedplate.cluster.plugins.module_utils.gpu.driver.grub_menu import kernel_of_entry
from ansible_collections.bedplate.cluster.plugins.module_utils.gpu.driver.next_kernel import (
    BootError,
    Grub,
    boot_problem,
    kernels,
    next_kernel,
)
from tests.kit import sentences

SENTENCES = Path(__file__).parents[1] / "sentences.txt"

OLD, NEW = "6.1.0-55-amd64", "6.1.0-56-amd64"
EL, LATER = "5.14.0-503.11.1.el9_5.x86_64", "5.14.0-570.12.1.el9_6.x86_64"
quickly = settings(derandomize=True, deadline=None, max_examples=60)
ID = "4f1c0a7e"
UUID = "9f3c6a1e-0d6f-4a55-9f2a-2f8f1a4f5e11"


def _entry(kind: str, release: str, title: str, indent: str = "") -> str:
    return (
        f"{indent}menuentry '{title}' --class debian --class gnu-linux --class os $menuentry_id_option 'gnulinux-{kind}-{UUID}' {{\n"
        f"{indent}\tload_video\n{indent}\tif [ x$grub_platform = xxen ]; then insmod xzio; fi\n"
        f"{indent}\techo\t'Loading Linux {release} ...'\n{indent}\tlinux\t/boot/vmlinuz-{release} root=UUID={UUID} ro  quiet\n"
        f"{indent}\tinitrd\t/boot/initrd.img-{release}\n{indent}}}\n"
    )


MENU = (
    'set default="${saved_entry}"\nif [ x"${feature_menuentry_id}" = xy ]; then\n  menuentry_id_option="--id"\nfi\n'
    "function savedefault {\n  if [ -z \"${boot_once}\" ]; then\n    save_env saved_entry\n  fi\n}\n"
    + _entry("simple", NEW, "Debian GNU/Linux")
    + f"submenu 'Advanced options for Debian GNU/Linux' $menuentry_id_option 'gnulinux-advanced-{UUID}' {{\n"
    + "".join(
        _entry(f"{release}-{kind}", release, f"Debian GNU/Linux, with Linux {release}{words}", "\t")
        for release in (NEW, OLD)
        for kind, words in (("advanced", ""), ("recovery", " (recovery mode)"))
    )
    + "}\nmenuentry 'UEFI Firmware Settings' $menuentry_id_option 'uefi-firmware' {\n\tfwsetup\n}\n"
)  # fmt: skip


class Machine:
    """A machine's /boot and /etc/default/grub."""

    def __init__(self, top: Path) -> None:
        self.boot, self.defaults = top / "boot", top / "grub"
        self.boot.mkdir()
        self.said = Outcome(127, "", "grubby: not found")

    @property
    def grub(self) -> Grub:
        return Grub(self.boot, self.defaults, lambda argv: self.said)

    def said_of(self, text: object) -> str:
        """Return a sentence without the place of this test's files."""
        return str(text).replace(str(self.boot.parent), "")

    def kernels(self, *releases: str) -> None:
        for release in releases:
            (self.boot / f"vmlinuz-{release}").touch()

    def told(self, text: str) -> None:
        self.defaults.write_text(f"GRUB_TIMEOUT=1\n{text}\n")

    def saved(self, *lines: str, name: str = "grub") -> None:
        (self.boot / name).mkdir(exist_ok=True)
        text = "".join(f"{line}\n" for line in ("# GRUB Environment Block", *lines))
        (self.boot / name / "grubenv").write_text(text.ljust(1024, "#"))

    def menu(self) -> None:
        (self.boot / "grub").mkdir(exist_ok=True)
        (self.boot / "grub/grub.cfg").write_text(MENU)

    def entries(self, *releases: str) -> None:
        self.told("GRUB_DEFAULT=saved\nGRUB_ENABLE_BLSCFG=true")
        (self.boot / "loader/entries").mkdir(parents=True)
        for release in releases:
            text = f"title Rocky Linux ({release}) 9.5\nversion {release}\nlinux /vmlinuz-{release}\n"
            (self.boot / f"loader/entries/{ID}-{release}.conf").write_text(text)
        self.kernels(*releases)


@pytest.fixture
def machine(tmp_path: Path) -> Machine:
    return Machine(tmp_path)


def test_the_next_kernel_is_the_newest_where_nobody_told_grub_otherwise(machine: Machine) -> None:
    with pytest.raises(BootError, match=r"/boot: .*`kernel`") as caught:
        next_kernel(machine.grub)
    sentences.check(SENTENCES, "no kernel", [machine.said_of(caught.value)])
    machine.kernels("6.1.0-9-amd64", NEW, OLD, "5.10.0-99-amd64", "0-rescue-4f1c")
    (machine.boot / "vmlinuz.old").touch()
    assert kernels(machine.boot) == ["5.10.0-99-amd64", "6.1.0-9-amd64", OLD, NEW]
    assert next_kernel(machine.grub) == NEW
    for text in ("", "GRUB_DEFAULT=0", "#GRUB_DEFAULT=2", 'GRUB_DEFAULT="0"'):
        machine.told(text)
        assert next_kernel(machine.grub) == NEW


@pytest.mark.parametrize("chosen", ["saved", '"1>2"', "2", '"Something else"', f"gnulinux-simple-{UUID}"])
def test_where_nothing_tells_the_kernel_has_to_be_stated(machine: Machine, chosen: str) -> None:
    machine.kernels(OLD, NEW)
    machine.told(f"GRUB_DEFAULT={chosen}")
    with pytest.raises(BootError, match=rf"`kernel`, one of {OLD}, {NEW}$") as caught:
        next_kernel(machine.grub)
    # The statement is all that there is, and whoever reboots is told so.
    for installed in (True, False):
        told = boot_problem(OLD, "apt", machine.grub, installed=installed)
        assert OLD in told
    if chosen in ("saved", "2"):
        said = [machine.said_of(text) for text in (caught.value, told)]
        sentences.check(SENTENCES, f"the kernel that boots is not known: GRUB_DEFAULT={chosen}", said)


@pytest.mark.parametrize(
    ("chosen", "boots"),
    [
        (f"gnulinux-advanced-{UUID}>gnulinux-{OLD}-advanced-{UUID}", OLD),
        (f'"Advanced options for Debian GNU/Linux>Debian GNU/Linux, with Linux {OLD}"', OLD),
        ('"1>2"', OLD),
        ("'1>0'", NEW),
        (f"gnulinux-simple-{UUID}", NEW),
        ('"Debian GNU/Linux"', NEW),
        # What boots no kernel of here.
        ("uefi-firmware", ""),
        ("7", ""),
        ('"1>9"', ""),
    ],
)
def test_an_entry_that_somebody_chose_is_found_in_the_menu(machine: Machine, chosen: str, boots: str) -> None:
    machine.kernels(OLD, NEW)
    machine.menu()
    machine.told(f"GRUB_DEFAULT={chosen}")
    if boots:
        assert next_kernel(machine.grub) == boots
        return
    with pytest.raises(BootError, match="state `kernel`"):
        next_kernel(machine.grub)


def test_the_last_file_that_grub_reads_counts(machine: Machine) -> None:
    machine.kernels(OLD, NEW)
    machine.told("GRUB_DEFAULT=0")
    directory = Path(f"{machine.defaults}.d")
    directory.mkdir()
    (directory / "50-site.cfg").write_text(f'GRUB_DEFAULT="Advanced>With Linux {OLD}"\n')
    assert next_kernel(machine.grub) == OLD


def test_what_grub_has_saved_boots(machine: Machine) -> None:
    machine.kernels(OLD, NEW)
    machine.told("GRUB_DEFAULT=saved")
    machine.saved(f"saved_entry=gnulinux-{OLD}-advanced-{UUID}")
    assert next_kernel(machine.grub) == OLD
    # As long as nothing is saved it is the first one.
    machine.saved()
    assert next_kernel(machine.grub) == NEW
    # Once only, whatever else was chosen: `grub-reboot`.
    for text in ("GRUB_DEFAULT=saved", "GRUB_DEFAULT=0"):
        machine.told(text)
        machine.saved(f"next_entry=gnulinux-advanced-{UUID}>gnulinux-{OLD}-advanced-{UUID}", "saved_entry=0")
        assert next_kernel(machine.grub) == OLD


def test_a_stated_kernel_that_would_not_boot_is_told(machine: Machine) -> None:
    machine.kernels(OLD, NEW)
    for installed in (True, False):
        assert boot_problem(NEW, "apt", machine.grub, installed=installed) == ""
        with pytest.raises(BootError, match=rf"{OLD} .*{NEW} .*apt-get purge linux-image-{NEW}") as newest:
            boot_problem(OLD, "apt", machine.grub, installed=installed)
    machine.told("GRUB_DEFAULT=saved")
    machine.saved(f"saved_entry={OLD}")
    assert boot_problem(OLD, "apt", machine.grub, installed=True) == ""
    with pytest.raises(BootError, match=rf"{NEW} .*{OLD} .*GRUB_DEFAULT in /etc/default/grub") as saved:
        boot_problem(NEW, "apt", machine.grub, installed=True)
    sentences.check(SENTENCES, "another kernel boots: the newest, the saved one", [newest.value, saved.value])


def test_a_module_is_not_proven_for_a_stated_kernel_that_would_not_boot(
    machine: Machine, monkeypatch: pytest.MonkeyPatch
) -> None:
    machine.kernels(OLD, NEW)
    monkeypatch.setattr(module, "Grub", lambda: machine.grub)
    with pytest.raises(BootError, match=rf"{OLD} .*{NEW} "):
        kernel_of({"manager": "apt", "kernel": OLD})
    for kernel in (NEW, "6.1.0-57-amd64"):
        assert kernel_of({"manager": "apt", "kernel": kernel}) == kernel
    assert kernel_of({"manager": "apt", "kernel": None}) == NEW


def test_a_stated_kernel_that_is_to_come_is_judged_as_if_it_were_there(machine: Machine) -> None:
    machine.kernels(OLD)
    assert boot_problem(NEW, "apt", machine.grub, installed=False) == ""
    with pytest.raises(BootError, match=rf"kernel {NEW} .*/boot/vmlinuz-{NEW}") as caught:
        boot_problem(NEW, "apt", machine.grub, installed=True)
    sentences.check(SENTENCES, "a stated kernel that is not installed", [machine.said_of(caught.value)])
    with pytest.raises(BootError, match=rf"6\.1\.0-9-amd64 .*{OLD} "):
        boot_problem("6.1.0-9-amd64", "apt", machine.grub, installed=False)
    # A saved entry stays what it is.
    machine.told("GRUB_DEFAULT=saved")
    machine.saved(f"saved_entry=gnulinux-{OLD}-advanced-{UUID}")
    with pytest.raises(BootError, match=rf"{NEW} .*{OLD} "):
        boot_problem(NEW, "apt", machine.grub, installed=False)
    # In the menu that it makes, places are others.
    machine.menu()
    machine.told("GRUB_DEFAULT=0>1")
    assert NEW in boot_problem(NEW, "apt", machine.grub, installed=False)


def test_on_el_the_saved_entry_boots_and_not_the_newest(machine: Machine) -> None:
    machine.entries(EL, LATER)
    with pytest.raises(BootError, match=rf"/boot/loader/entries.*`kernel`, one of {EL}, {LATER}$") as unknown:
        next_kernel(machine.grub)
    machine.saved(f"saved_entry={ID}-{LATER}", name="grub2")
    assert next_kernel(machine.grub) == LATER
    with pytest.raises(BootError, match=rf"{EL} .*{LATER} .*grubby --set-default /boot/vmlinuz-{EL}") as other:
        boot_problem(EL, "dnf", machine.grub, installed=True)
    machine.saved(f"saved_entry={ID}-{EL}", name="grub2")
    assert boot_problem(EL, "dnf", machine.grub, installed=True) == ""
    with pytest.raises(BootError, match=f"dnf remove kernel-core-{EL}"):
        boot_problem(LATER, "dnf", machine.grub, installed=True)
    # Who installs one makes it the saved one, as the system's own settings say.
    coming = boot_problem("5.14.0-600.el9.x86_64", "dnf", machine.grub, installed=False)
    assert "5.14.0-600.el9.x86_64" in coming
    said = [machine.said_of(text) for text in (unknown.value, other.value, coming)]
    sentences.check(SENTENCES, "the kernel that boots on EL: not known, another one, one that comes", said)


@pytest.mark.parametrize("lines", [(), ("saved_entry=0",), ("saved_entry=custom",)])
def test_on_el_grubby_knows_what_a_place_in_the_menu_is(machine: Machine, lines: tuple[str, ...]) -> None:
    machine.entries(EL, LATER)
    machine.saved(*lines, name="grub2")
    assert EL in boot_problem(EL, "dnf", machine.grub, installed=True)
    machine.said = Outcome(0, f"/boot/vmlinuz-{LATER}\n", "")
    assert next_kernel(machine.grub) == LATER
    with pytest.raises(BootError, match=f"{EL} .*{LATER} .*grubby"):
        boot_problem(EL, "dnf", machine.grub, installed=True)
    machine.said = Outcome(0, "/boot/vmlinuz-4.18.0-1.el8.x86_64\n", "")
    assert EL in boot_problem(EL, "dnf", machine.grub, installed=True)


def test_a_menu_is_read_with_its_submenus() -> None:
    assert kernel_of_entry(MENU, "0") == NEW
    assert [kernel_of_entry(MENU, f"1>{place}") for place in range(5)] == [NEW, NEW, OLD, OLD, ""]
    assert kernel_of_entry(MENU, f"gnulinux-advanced-{UUID}>1") == NEW
    for nothing in ("", "2", "3", "1", "x>0", "1>x"):
        assert kernel_of_entry(MENU, nothing) == ""


WORDS = st.lists(
    st.sampled_from([*MENU.splitlines(), "}", "{", "submenu 'a' {", "linux /vmlinuz-", "menuentry ''", "\t", "1>"]),
    max_size=30,
)


@quickly
@given(WORDS, st.sampled_from(["0", "1>0", "1>2", "a", "a>0", ">", "", "99999999999", "²"]))
def test_of_whatever_menu_a_kernel_is_one_that_it_has_or_none(lines: list[str], entry: str) -> None:
    text = "\n".join(lines)
    kernel = kernel_of_entry(text, entry)
    assert not kernel or f"/vmlinuz-{kernel}" in text
