"""The reader of partitions.conf sees each mistake that OpenSM takes without a word."""

from __future__ import annotations

import time

import pytest

from ansible_collections.bedplate.cluster.plugins.plugin_utils.fabric.simulate.netfile import with_guids
from tests.kit.partitions_reader import parse
from tests.unit.fabric.opensm.test_partitions import fabric

A, B = "0x0002c90300a10001", "0x0002c90300a10002"


GOOD = f"""\
# comment; with a semicolon and a colon: there
Default=0x7fff,ipoib,defmember=limited : ALL, SELF=full ;
red=0x0001, ipoib, mtu=5, rate=16, sl=2 : {A}=full,
    {B} , # the last comma of a line is allowed
    ALL_ROUTERS,;
0x2 : {A} = limited; blue=3 : {A}=full
 {B}=limited ;
mgroups=0x0004,ipoib : mgid=ff12:401b::0707,sl=1
  mgid=ff12:601b::1
  ALL_CAS=full, ALL_SWITCHES=limited, ALL_ROUTERS=full ;
"""


REFUSED = "OpenSM refuses the whole file"


# What is wrong: the file, line, part of the message. Each was given to OpenSM 3.3.23; those with REFUSED made it drop the file.
MALFORMED: dict[str, tuple[str, int, str]] = {
    "GUID of letters": ("a=1 : 0xzz=full ;", 1, f"'0xzz' is no GUID: {REFUSED}"),
    "GUID without 0x": ("a=1 : 0002c90300a10001=full ;", 1, f"is no GUID: {REFUSED}"),
    "GUID with a colon": ("a=1 : 0x0002:c903=full ;", 1, f"is no GUID: {REFUSED}"),
    "GUID of zeros": ("a=1 : 0x0=full ;", 1, f"is no GUID: {REFUSED}"),
    "GUID with a hyphen": (f"a=1 : {A}-{B}=full ;", 1, REFUSED),
    "GUID and blank": ("a=1 : 0x0002 c90300a10001=full ;", 1, REFUSED),
    "GUID in decimal": ("a=1 : 1234567890=full ;", 1, "is no GUID: OpenSM would take it for another GUID"),
    "GUID in octal": ("a=1 : 0012345670=full ;", 1, "is no GUID: OpenSM would take it for another GUID"),
    "GUID too long": (f"a=1 : {A}00=full ;", 1, "is no GUID: OpenSM would take it for another GUID"),
    "GUID on a later line": (f"a=1 : {A}=full,\n {B},\n 0xq ;", 3, f"'0xq' is no GUID: {REFUSED}"),
    "name of a host": ("a=1 : gpu1=full ;", 1, f"'gpu1' is no GUID: {REFUSED}"),
    "group in lower case": ("a=1 : all=full ;", 1, f"'all' is no GUID: {REFUSED}"),
    "part of a group": ("a=1 : ALL_C=full ;", 1, "'ALL_C' is no member: OpenSM takes it for ALL_CAS"),
    "letter of a group": ("a=1 : S=full ;", 1, "'S' is no member: OpenSM takes it for SELF"),
    "nobody": ("a=1 : NONE ;", 1, "'NONE' is no member: OpenSM takes it for NONE"),
    "unknown flag": (f"a=1,ipob : {A}=full ;", 1, "unknown flag 'ipob': OpenSM ignores it"),
    "part of a flag": (f"a=1,ip : {A}=full ;", 1, "unknown flag 'ip': OpenSM takes it for ipoib"),
    "no flag": (f"a=1,,ipoib : {A}=full ;", 1, "unknown flag '': OpenSM takes it for mtu"),
    "flag in upper case": (f"a=1,IPOIB : {A}=full ;", 1, "unknown flag 'IPOIB': OpenSM ignores it"),
    "flag twice": (f"a=1,sl=1,sl=2 : {A}=full ;", 1, "flag sl is there twice"),
    "value of a switch": (f"a=1,ipoib=yes : {A}=full ;", 1, "flag ipoib takes no value"),
    "mtu in bytes": (f"a=1,mtu=4096 : {A}=full ;", 1, "mtu is '4096'; allowed: 1 to 5"),
    "rate in Gb/s": (f"a=1,rate=200 : {A}=full ;", 1, "rate is '200'; allowed: 2 to 23"),
    "sl too high": (f"a=1,sl=16 : {A}=full ;", 1, "sl is '16'; allowed: 0 to 15"),
    "scope of 0": (f"a=1,scope=0 : {A}=full ;", 1, "scope is '0'; allowed: 1 to 15"),
    "value that is no number": (f"a=1,mtu=big : {A}=full ;", 1, "mtu is 'big'"),
    "defmember misspelt": (f"a=1,defmember=fill : {A} ;", 1, "defmember is 'fill'; allowed: full, limited, both"),
    "defmember cut short": (f"a=1,defmember=f : {A} ;", 1, "defmember is 'f'; allowed: full"),
    "membership cut short": (f"a=1 : {A}=ful ;", 1, "is 'ful': OpenSM takes it for full"),
    "membership misspelt": (f"a=1 : {A}=fulll ;", 1, "is 'fulll': OpenSM takes it for limited"),
    "membership in upper case": (f"a=1 : {A}=FULL ;", 1, "is 'FULL': OpenSM takes it for limited"),
    "membership empty": (f"a=1 : {A}= ;", 1, "is '': OpenSM takes it for full"),
    "membership both": (f"a=1 : {A}=both ;", 1, "membership both is full unless opensm.conf has allow_both_pkeys"),
    "no comma": (f"a=1 : {A}=full {B}=full ;", 1, f"is 'full {B}=full': OpenSM takes it for limited"),
    "comma too many": (f"a=1 : {A}=full,,{B}=full ;", 1, "a comma with nothing before it"),
    "port twice": (f"a=1 : {A}=full,\n{A}=limited ;", 2, "0002c90300a10001 is in line 1 already"),
    "no colon": (f"a=1 {A}=full ;", 1, f"no ':' after name, pkey and flags 'a=1 {A}=full', which are"),
    "colon on the next line": (f"a=1,ipoib\n : {A}=full ;", 1, f"to be on one line: {REFUSED}"),
    "no semicolon": (f"a=1 : {A}=full\nb=2 : {B}=full ;", 2, f"a (line 1) has no ';' at its end: {REFUSED}"),
    "no semicolon at the end": (f"a=1 : {A}=full\n", 1, "partition a has no ';' at its end"),
    "semicolon in a comment": (f"a=1 : {A}=full # all ;\nb=2 : {B} ;", 2, f"a (line 1) has no ';' at its end: {REFUSED}"),
    "semicolon on a line of its own": (f"a=1 : {A}=full,\n {B}\n ;", 3, "a ';' with nothing before it: OpenSM reads on"),
    "semicolon alone": (f"a=1 : {A}=full ;\n;\n", 2, "a ';' that ends nothing"),
    "pkey twice": (f"a=1 : {A} ;\nb=0x1 : {B} ;", 2, "pkey 0x0001 is that of a (line 1): OpenSM makes them one"),
    "pkey twice but for the top bit": (f"a=1 : {A} ;\nb=0x8001 : {B} ;", 2, "pkey 0x0001 is that of a (line 1)"),
    "name twice": (f"a=1 : {A} ;\na=2 : {B} ;", 2, "the name a is in line 1 already"),
    "name too long": (f"{'a' * 32}=1 : {A} ;", 1, "has more than 31 signs, and OpenSM cuts it"),
    "pkey of 0": (f"a=0 : {A} ;", 1, "pkey 0 is out of range; allowed: 0x0001 to 0x7fff"),
    "pkey of the top bit alone": (f"a=0x8000 : {A} ;", 1, "pkey 0x8000 is out of range"),
    "pkey too large": (f"a=0x10001 : {A} ;", 1, "pkey 0x10001 is out of range"),
    "pkey without 0x": (f"a=7f : {A} ;", 1, f"pkey '7f' is no number; allowed: 0x0001 to 0x7fff: {REFUSED}"),
    "pkey in octal": (f"a=010 : {A} ;", 1, "pkey '010' is no number; allowed: 0x0001 to 0x7fff: OpenSM would read it as octal"),
    "pkey below 0": (f"a=-1 : {A} ;", 1, "pkey '-1' is no number"),
    "no pkey": (f"tenant : {A}=full ;", 1, "partition 'tenant' has no pkey, so OpenSM would make one up"),
    "nothing": ("# nothing", 1, f"there is no partition in it: {REFUSED}"),
    "lines of Windows": (f"a=1 : {A}=full,\r\n {B}=full\r\n ;\r\n", 1, f"a part of the last word: {REFUSED}"),
    "line too long": ("a=1 : " + ", ".join([f"0x{n:016x}" for n in range(1, 210)]) + " ;", 1, "more than 4093 bytes, and OpenSM cuts"),
    "mgid of no group": (f"a=1,ipoib : mgid=fe80::1\n {A} ;", 1, "mgid 'fe80::1' is no multicast address"),
    "top bit of the pkey": (f"a=0x8001 : {A}=full ;", 1, "pkey 0x8001 has the top bit, which OpenSM drops"),
    "everyone is full": (f"Default=0x7fff : ALL=full ;\na=1 : {A}=full ;", 1, "ALL are full members of 0x7fff, so the other"),
}  # fmt: skip


def test_what_opensm_takes_as_it_is_meant():
    entries, problems = parse(GOOD)
    assert [str(one) for one in problems] == []
    assert [(entry.name, entry.pkey, entry.line, len(entry.members)) for entry in entries] == [
        ("Default", 0x7FFF, 2, 2),
        ("red", 1, 3, 3),
        ("0002", 2, 6, 1),
        ("blue", 3, 6, 2),
        ("mgroups", 4, 8, 3),
    ]
    assert [member.membership for member in entries[0].members] == ["limited", "full"]
    assert [member.membership for member in entries[1].members] == ["full", "limited", "limited"]
    assert entries[1].flags == {"ipoib": "", "mtu": "5", "rate": "16", "sl": "2"}


@pytest.mark.parametrize("case", MALFORMED)
def test_every_mistake_is_reported_with_its_line(case: str):
    text, line, message = MALFORMED[case]
    _entries, problems = parse(text)
    assert any(one.where == f"partitions.conf line {line}" and message in one.text for one in problems), problems
    assert {one.rule for one in problems} == {"partitions"}


def test_all_mistakes_are_reported_at_once():
    _entries, problems = parse(f"a=1,ipob : 0xz=full, {A}=ful ;\nb=1 : {B}=FULL\n")
    assert [one.where[-1] for one in problems] == ["1", "1", "1", "2", "2", "2"]


def test_both_where_it_is_allowed():
    assert parse(f"a=1,defmember=both : {A}=both, {B} ;", both=True)[1] == []


def test_members_are_ports_of_the_plan():
    plan = with_guids(fabric())
    hca = plan.hcas["gpu1 mlx5_0"]
    text = f"a=1 : 0x{hca.port_guid}=full,\n 0x{hca.guid}=full,\n 0x0002c90300a1ffff=full ;"
    problems = parse(text, plan)[1]
    assert [one.where[-1] for one in problems] == ["2", "3"]
    assert f"0x{hca.guid} is the node GUID of gpu1 mlx5_0; its port GUID is to be here" in problems[0].text
    assert "0x0002c90300a1ffff is no port GUID of the plan" in problems[1].text
    assert "give nobody the pkey" in problems[1].text


@pytest.mark.simulation
def test_partition_of_16384_ports_is_read_in_a_moment():
    guids = [f"0x{number:016x}" for number in range(1, 16385)]
    text = f"red=0x0001 : {chr(10).join(guids)} ;\n"
    start = time.process_time()
    ((entry,), problems) = parse(text)
    # 0.1 s; a look at all others for each would take 10.
    assert time.process_time() - start < 2
    assert (len(entry.members), problems) == (16384, [])
    assert "is in line 1 already" in parse(text.replace(" ;", f",{guids[0]} ;"))[1][0].text
