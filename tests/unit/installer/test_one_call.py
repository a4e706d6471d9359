"""One call of one program goes wrong: the refusal names it, and the disk is unchanged before the claim and never boots after it."""

from __future__ import annotations

import pytest

from tests.kit.provision import faulty
from tests.kit.provision.faulty import WORKS_AND_FAILS
from tests.kit.provision.machine import DISK_MIB, MIB, Machine
from tests.unit.provision.test_installer import _gpt, never_boots, refuses

END = (DISK_MIB - 1) * MIB
FAILS, DOES_NOTHING = "exit 1", "exit 0"
# Program, words of the call, which of these calls, what goes wrong, the refusal.
BEFORE = [
    ("wipefs", "/dev/vda", 1, FAILS, "wipefs cannot read"),
    ("dd", "if=*/dev/vda *skip=0 ", 1, FAILS, "cannot be read at byte 0"),
    ("dd", f"if=*/dev/vda *skip={END} ", 1, FAILS, f"cannot be read at byte {END}"),
    # The silence of a program that worked until it read the disk.
    ("wipefs", "/run/signed", 4, DOES_NOTHING, "wipefs does not work: it does not find a signature"),
    ("ip", "link set", 1, FAILS, "ip cannot set eth0 up"),
    ("ip", "address replace", 1, WORKS_AND_FAILS, "ip cannot set the address of eth0"),
    ("ip", "address replace", 1, DOES_NOTHING, "ip cannot set the address of eth0"),
    ("ip", "route replace", 1, FAILS, "ip cannot set the route of eth0"),
    ("curl", "/claim", 1, FAILS, "the order server does not answer the claim"),
]
AFTER = [
    ("dd", "if=/dev/zero of=*/dev/vda *seek=0 ", 1, DOES_NOTHING, "cannot be written"),
    # It is in the page cache, and not on the disk.
    ("dd", "if=/dev/zero of=*/dev/vda *seek=0 ", 1, WORKS_AND_FAILS, "cannot be written"),
    ("dd", f"if=/dev/zero of=*/dev/vda *seek={END} ", 1, DOES_NOTHING, "cannot be written"),
    ("mkfifo", "/run/stream", 1, FAILS, "mkfifo does not work"),
    ("curl", "/images/", 1, WORKS_AND_FAILS, "fetch ended with '1'"),
    ("tee", "/run/stream", 1, WORKS_AND_FAILS, "tee ended with '1'"),
    ("zstd", "-d", 2, WORKS_AND_FAILS, "unpack ended with '1'"),
    ("dd", "of=*/run/first", 1, WORKS_AND_FAILS, "first ended with '1'"),
    ("dd", "of=*/dev/vda *seek=1 ", 1, WORKS_AND_FAILS, "rest ended with '1'"),
    ("dd", "of=*/dev/vda *seek=1 ", 1, "/bin/cat >/dev/null; exit 0", "what was read back"),
    ("curl", "/seed", 1, FAILS, "the order server does not send the seed:  "),
    ("tar", "answer.seed", 1, FAILS, "the seed cannot be unpacked"),
    ("debugfs", "-w", 1, WORKS_AND_FAILS, "debugfs cannot write to the image"),
    ("debugfs", "-w", 1, DOES_NOTHING, "/etc/bedplate/image of the seed cannot be read back"),
    ("debugfs", "-w", 1, "/bin/sed -i '/ mode /d' $3", "of the seed was not written"),
    ("debugfs", "-w", 1, "/bin/sed -i 's/ uid 0/ uid 7/' $3", "of the seed cannot be read back"),
    ("debugfs", "-w", 1, "/bin/sed -i 's| /.*/seed/0 | /etc/passwd |' $3", "of the seed was not written"),
    ("debugfs", "dump", 2, FAILS, "of the seed cannot be read back"),
    ("debugfs", "stat", 2, FAILS, "of the seed cannot be read back"),
    ("e2fsck", "-f -n", 1, WORKS_AND_FAILS, "the file system of the image has errors"),
    ("e2fsck", "-f -n", 1, DOES_NOTHING, "the file system of the image has errors"),
    ("truncate", "/run/table", 1, FAILS, "the partition table cannot be made"),
    ("dd", "of=*/run/table", 1, FAILS, "the partition table cannot be made"),
    ("sfdisk", "--dump *run/table", 1, FAILS, "no GPT that sfdisk reads"),
    ("sfdisk", "-N", 1, WORKS_AND_FAILS, "sfdisk cannot grow partition 2"),
    ("sfdisk", "-N", 1, DOES_NOTHING, "sfdisk did not grow partition 2"),
    ("sfdisk", "--dump *run/table", 2, WORKS_AND_FAILS, "sfdisk did not grow partition 2"),
    ("dd", f"if=*/run/table bs=* skip={END} ", 1, FAILS, f"the partition table is empty at byte {END}"),
    ("dd", f"if=*/run/table of=* skip={END} ", 1, WORKS_AND_FAILS, f"cannot be written at byte {END}"),
    ("dd", f"if=*/run/table of=* skip={END} ", 1, DOES_NOTHING, f"has not what was written at byte {END}"),
    ("dd", "if=*/run/table of=* skip=0 ", 1, WORKS_AND_FAILS, "cannot be written at byte 0"),
    ("dd", "if=*/run/table of=* skip=0 ", 1, DOES_NOTHING, "has not what was written at byte 0"),
]


@pytest.mark.parametrize(("name", "words", "number", "fault", "says"), BEFORE)
def test_before_the_claim(site, node: Machine, name: str, words: str, number: int, fault: str, says: str) -> None:
    _gpt(node.disk)
    faulty.at_words(node, name, words, fault, number)
    order = site.arm_for(node, wipe="yes")
    # Without a network a refusal is not reported.
    refuses(node, site, order, says, state="armed" if name == "ip" else "refused")


@pytest.mark.parametrize(("name", "words", "number", "fault", "says"), AFTER)
def test_after_the_claim(site, node: Machine, name: str, words: str, number: int, fault: str, says: str) -> None:
    _gpt(node.disk)
    other = node.other.read_bytes()
    faulty.at_words(node, name, words, fault, number)
    order = site.arm_for(node, wipe="yes")
    ended = node.install()
    assert (ended.code, ended.is_off, site.state(order)) == (1, True, "refused"), ended.console
    assert says in ended.reason
    never_boots(node)
    assert node.other.read_bytes() == other
