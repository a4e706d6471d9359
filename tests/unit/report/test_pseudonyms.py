"""Each kind of secret is replaced wherever it is, and what a report is for is kept."""

from __future__ import annotations

import re

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from ansible_collections.bedplate.cluster.plugins.plugin_utils.report.cmdline import redacted_cmdline
from ansible_collections.bedplate.cluster.plugins.plugin_utils.report.pseudonyms import Pseudonyms, report_leaks

NAMES = {
    "host": ["gpu017", "ctl1.west.corp", "Node-A-3"],
    "domain": ["west.corp"],
    "user": ["alice", "Bob Smith", "nvidia"],
    "serial": ["SN77AX", "1652923002233", "To/Be 4711"],
    "secret": ["hunter2hunter"],
}
SECRETS = {
    "host": "gpu017",
    "host in capitals": "GPU017",
    "host with dashes": "node-a-3",
    "full name": "ctl1.west.corp",
    "another host of the domain": "storage9.west.corp",
    "name of a public form": "license.example.com",
    "domain": "west.corp",
    "user": "alice",
    "user with a blank": "Bob Smith",
    "serial": "SN77AX",
    "number": "1652923002233",
    "serial with a slash": "To/Be 4711",
    "password": "hunter2hunter",
    "IPv4": "10.20.30.41",
    "IPv6": "2001:db8:77::17",
    "IPv6 in full": "fe80:0000:0000:0000:506b:4b03:00c2:d3f0",
    "MAC": "b8:59:9f:0a:1b:2c",
    "MAC with dashes": "B8-59-9F-0A-1B-2C",
    "MAC with dots": "b859.9f0a.1b2c",
    "MAC in a name": "enxb8599f0a1b2c",
    "IPoIB address": "00:00:10:49:fe:80:00:00:00:00:00:00:50:6b:4b:03:00:c2:d3:f0",
    "GUID": "0x506b4b0300c2d3f0",
    "GUID of sysfs": "506b:4b03:00c2:d3f0",
    "GUID in a name": "rocex506b4b0300c2d3f0",
    "UUID": "4c4c4544-0042-3510-8051-b7c04f4e3132",
    "UUID of a GPU": "GPU-5d3e1234-98ab-1234-5678-1234567890ab",
    "UUID of MIG": "MIG-5d3e1234-98ab-1234-5678-1234567890ab",
    "machine id": "9f2b7a3c4d5e6f708192a3b4c5d6e7f8",
    "mail": "carol@mail.invalid",
    "JWT": "eyJhbGciOiJIUzI1NiJ9.eyJzdWIiOiIxMjM0NTY3ODkwIn0.dozjgNryP4J3jVmN",
    "token of a forge": "ghp_16C7e42F292c6912E7710c838347Ae178B4a",
    "random token": "AbC9dEf0123456789xYzAbCdEf01",
    "AWS host": "ip-10-20-30-41",
}
PLACES = {
    "alone": "{}",
    "in a sentence": "cannot read {}: refused",
    "after a colon": "error:{}",
    "in quotes": "name='{}', x",
    "in brackets": "[{}]",
    "last": "see\n{}",
    "twice": "{} and {}",
    "between colons": "bad:{}:x",
}


@pytest.fixture(scope="module")
def pseudonyms() -> Pseudonyms:
    return Pseudonyms(NAMES, ["developer.download.nvidia.com"], ["ubuntu", "dists", "cuda"])


@pytest.mark.parametrize("place", PLACES)
@pytest.mark.parametrize("secret", SECRETS)
def test_a_secret_is_replaced_in_every_place(pseudonyms: Pseudonyms, secret: str, place: str) -> None:
    value = SECRETS[secret]
    text = PLACES[place].replace("{}", value)
    found = pseudonyms.text(text)
    assert value.lower() not in found.lower()
    assert re.search(r"<[a-z]+-[0-9a-f]{10}>", found)
    assert pseudonyms.text(found) == found
    assert report_leaks([found], pseudonyms) == []
    assert report_leaks([text], pseudonyms) != []


@pytest.mark.parametrize(
    ("text", "secrets"),
    [
        (
            "http://bob:s3cret@mirror.corp.example:8080/team-x/ubuntu/dists?sig=sgn7x#part9z",
            ["bob", "s3cret", "mirror", "team-x", "sgn7x", "part9z"],
        ),
        ("baseurl=https://10.1.2.3/repo-of-us/x86_64", ["10.1.2.3", "repo-of-us"]),
        ("proxy=http://proxy-7:3128/", ["proxy-7"]),
        ("https://[2001:db8::9]/x", ["2001:db8"]),
        ("https://developer.download.nvidia.com/compute?key=s3cret", ["s3cret"]),
        ("password=s3cret", ["s3cret"]),
        ("password: 's3 cret'", ["s3 cret"]),
        ('"api_key": "s3cret"', ["s3cret"]),
        ("Authorization: Bearer s3cret-abc", ["s3cret"]),
        ("machine host login dave password s3cret", ["dave", "s3cret"]),
        ("username = dave", ["dave"]),
        ("/home/erin/bin and /users/frank", ["erin", "frank"]),
        ("gpu017-bmc_ib0", ["gpu017"]),
        ("Serial Number                         : 99887766", ["99887766"]),
        ("Chassis Asset Tag: X-1", ["X-1"]),
        ("-----BEGIN PGP PUBLIC KEY BLOCK-----\nmQINBF\n-----END PGP PUBLIC KEY BLOCK-----", ["mQINBF"]),
        ("-----BEGIN OPENSSH PRIVATE KEY-----\nb3Blb", ["b3Blb"]),
    ],
)  # fmt: skip
def test_what_only_its_place_makes_a_secret_is_replaced(pseudonyms: Pseudonyms, text: str, secrets: list[str]) -> None:
    found = pseudonyms.text(text)
    assert [one for one in secrets if one in found] == []
    assert pseudonyms.text(found) == found


@pytest.mark.parametrize(
    "text",
    [
        "0000:3b:00.0 00000000:3B:00.0 3b:00.0",
        "NVIDIA H100 80GB HBM3, Enabled, Disabled, [N/A], state  Completed",
        "nvidia/580.126.09, 6.8.0-90-generic, x86_64: installed",
        "6.12.57+deb13-amd64 5.14.0-427.el9.x86_64",
        "/lib/modules/6.12.57+deb13-amd64/updates/dkms/nvidia-current-open.ko.xz",
        "libnvidia-ml.so.580.126.09",
        "28.39.1002 MT_0000000838 96.00.74.00.01 4: ACTIVE 400 Gb/sec (4X NDR)",
        "2026-11-25 10:11:12 0-55,112-167",
        "https://developer.download.nvidia.com/compute/cuda/repos/ubuntu2404/x86_64/",
        "127.0.0.1 ::1 localhost root nvidia",
        "Serial Number : N/A",
        "0x10de 0x2330 0x030200 32.0 GT/s PCIe",
    ],
)
def test_what_a_report_is_for_is_kept(pseudonyms: Pseudonyms, text: str) -> None:
    assert pseudonyms.text(text) == text
    assert report_leaks([text], pseudonyms) == []


def test_equal_values_have_equal_labels_in_every_notation_and_others_do_not(pseudonyms: Pseudonyms) -> None:
    one, two, three = pseudonyms.text("506b:4b03:00c2:d3f0 0x506b4b0300c2d3f0 0x506b4b0300c2d3f1").split()
    assert one == two != three
    assert pseudonyms.text("GPU017") == pseudonyms.text("gpu017") == pseudonyms.label("host", "gpu017")
    assert "b8599f0a1b2c" not in pseudonyms.text("enxb8599f0a1b2c")
    assert pseudonyms.text("b8:59:9f:0a:1b:2c") in pseudonyms.text("enxb8599f0a1b2c")


def test_labels_of_two_runs_differ() -> None:
    assert Pseudonyms(NAMES).text("10.1.2.3") != Pseudonyms(NAMES).text("10.1.2.3")


def test_a_name_of_the_field_is_kept_and_a_short_number_is_not_a_name() -> None:
    assert Pseudonyms({"user": ["nvidia", "ubuntu"], "host": ["7"]}).text("nvidia 7 ubuntu") == "nvidia 7 ubuntu"


def test_a_kernel_command_line_keeps_the_tokens_of_hardware(pseudonyms: Pseudonyms) -> None:
    text = (
        "BOOT_IMAGE=/vmlinuz-6.12.57+deb13-amd64 root=/dev/mapper/vg-of-us ro quiet iommu=pt hugepages=1024 isolcpus=managed_irq,2-5 "
        'ds=nocloud;s=http://10.1.2.3/ tftp.srv="10.1.2.3 gpu017" our-token console=ttyS1,115200n8 nvidia-drm.modeset=1 Us3r!=x'
    )
    found = redacted_cmdline(text, pseudonyms)
    for kept in ("BOOT_IMAGE=/vmlinuz-6.12.57+deb13-amd64", "ro quiet iommu=pt hugepages=1024 isolcpus=managed_irq,2-5",
                 "console=ttyS1,115200n8 nvidia-drm.modeset=1", "root=<value-", "ds=<value-", "tftp.srv=<value-"):  # fmt: skip
        assert kept in found
    assert [one for one in ("vg-of-us", "10.1.2.3", "gpu017", "our-token", "Us3r", "nocloud") if one in found] == []
    assert redacted_cmdline(found, pseudonyms) == found
    assert pseudonyms.text(found) == found


PUNCTUATION = [
    "http://",
    "https://",
    ":",
    "::",
    "/",
    "@",
    "=",
    "-",
    "_",
    ".",
    "?",
    "#",
    "[",
    "]",
    "<",
    ">",
    "'",
    '"',
    "\\",
    "%",
    "0x",
    "GPU-",
    "3b:00.0",
    "0000:3b:00.0",
    "1",
    "12",
    "a",
    "b8",
    "west",
    "corp",
    "gpu",
    "<host-",
    "<host-0123456789>",
    "password",
    "token:",
    "Bearer",
    "login",
    "serial:",
    "user=",
    "/home/",
    "eyJ",
    "N/A",
    "127.0.0.1",
    "-----BEGIN",
    "X-----",
    "-----END",
    "X-----",
]
TEXTS = st.lists(
    st.one_of(st.sampled_from([*SECRETS.values(), *PUNCTUATION, " ", "\n", "\t", "İ"]), st.text(max_size=3)), max_size=9
).map("".join)


@settings(derandomize=True, deadline=None, max_examples=500)
@given(TEXTS)
def test_a_redacted_text_of_any_form_passes_the_last_look(text: str) -> None:
    """Without this, a text that a node made could stop a whole report."""
    pseudonyms = Pseudonyms(NAMES, ["developer.download.nvidia.com"], ["ubuntu", "dists", "cuda"], b"x" * 32)
    for found in (pseudonyms.text(text), redacted_cmdline(text, pseudonyms)):
        assert pseudonyms.text(found) == found
        assert report_leaks([found], pseudonyms) == []


@pytest.mark.parametrize(
    ("name", "text"),
    [
        # No IPv4 address, and the name of a host.
        ("580.126.09.1", "nvidia-smi\t580.126.09.1\tinstalled"),
        # Among what may be the groups of an address.
        ("cafe", "dead:beef:cafe"),
        ("cafe", "cafe:2001:db8:77::17:cafe"),
    ],
)
def test_a_name_in_what_looks_like_an_address_is_replaced(name: str, text: str) -> None:
    pseudonyms = Pseudonyms({"host": [name]})
    found = pseudonyms.text(text)
    assert name not in found
    assert report_leaks([found], pseudonyms) == []


def test_a_label_stays_whole_whatever_a_name_is() -> None:
    pseudonyms = Pseudonyms({"host": ["-1", "gpu017"]}, salt=b"x")
    label = next(one for one in (pseudonyms.label("host", f"h{n}") for n in range(100)) if "-1" in one)
    assert pseudonyms.text(f"{label} gpu017") == f"{label} {pseudonyms.label('host', 'gpu017')}"


def test_a_known_token_that_looks_like_a_password_with_its_value_is_replaced() -> None:
    pseudonyms = Pseudonyms({})
    found = redacted_cmdline("quiet crashkernel=1G-4Gvmlinuz192M", pseudonyms)
    assert "vmlinuz192M" not in found
    assert found.startswith("quiet crashkernel=<value-")
    assert report_leaks([found], pseudonyms) == []
    assert redacted_cmdline("crashkernel=1G-4G:192M", pseudonyms) == "crashkernel=1G-4G:192M"
