"""Every mistake in a cluster file is found, with its line, its place, the value and what is allowed."""

from __future__ import annotations

from pathlib import Path

import pytest
import yaml

from tests.kit import sentences

SENTENCES = Path(__file__).parent / "sentences.txt"

SLIPS = {slip["slip"]: slip for slip in yaml.safe_load(Path(__file__).with_name("mistakes.yml").read_text())["slips"]}


def line_of(text: str, fragment: str) -> int:
    """Return the number of the last line of a fragment."""
    end = text.index(fragment) + len(fragment.removesuffix("\n"))
    return text.count("\n", 0, end) + 1


def wheres(error) -> list[str]:
    return [mistake.where for mistake in error.mistakes]


@pytest.mark.parametrize("name", SLIPS)
def test_one_slip_is_one_mistake(bench, name):
    slip = SLIPS[name]
    error = bench.error((slip["old"], slip["new"]))
    (mistake,) = error.mistakes
    assert mistake.where == slip["where"]
    assert mistake.line == line_of(bench.path.read_text(), slip["line"])
    assert [value for value in slip.get("values", ()) if value not in mistake.message] == []
    assert str(error) == f"{bench.path}:{mistake.line}: {mistake.where}: {mistake.message}"
    sentences.check(SENTENCES, f"slip: {name}", [mistake.message])


def test_the_base_file_is_right(bench):
    assert len(bench.load().nodes) == 8


def test_all_mistakes_come_out_together_in_the_order_of_the_file(bench):
    names = [
        "host bits", "device range", "unknown profile", "unknown host", "two defaults", "misspelt option", "spine twice",
    ]  # fmt: skip
    error = bench.error(*((SLIPS[name]["old"], SLIPS[name]["new"]) for name in names))
    assert wheres(error) == [SLIPS[name]["where"] for name in names]
    lines = [mistake.line for mistake in error.mistakes]
    assert lines == sorted(lines)
    assert len(str(error).splitlines()) == len(names)


@pytest.mark.parametrize(
    ("old", "new", "where", "values"),
    [
        ("      gpu02:", "      gpu[02-9999]:", "racks.r1.exceptions.gpu[02-9999]", ["'gpu05'", " 9994 "]),
        ("controllers: [ctl1]", "controllers: 'q[1-20000]'", "services.controllers", ["host 'q1'", " 19999 "]),
        ("nodes: all", "nodes: 'rack:q[1-20000]'", "partitions.every.nodes", ["rack 'q1'", " 19999 "]),
        ("nodes: all", "nodes: 'gpu[04-06]'", "partitions.every.nodes", ["node 'gpu05'", " 1 "]),
        ("[spine1, spine2]", "['s[1-20000]', 's[1-20000]']", "fabric.spines[1]", ["s1 "]),
    ],
)
def test_a_slip_in_a_hostlist_is_one_mistake_however_many_names_it_makes(bench, old, new, where, values):
    (mistake,) = bench.error((old, new)).mistakes
    assert mistake.where == where
    assert [value for value in values if value not in mistake.message] == []
    sentences.check(SENTENCES, f"hostlist: {new.strip()}", [mistake.message])


def test_a_nic_described_twice(bench):
    error = bench.error(("name: mlx5_1", "name: mlx5_0"))
    assert wheres(error) == ["profiles.gpu8.numa[1].nics", "profiles.gpu8.nics"]
    assert "'mlx5_0'" in error.mistakes[1].message
    sentences.check(SENTENCES, "a NIC described twice", [error.mistakes[1].message])


@pytest.mark.parametrize("name", ["localhost", "all", "bedplate", "ungrouped"])
def test_names_that_are_ansibles(bench, name):
    error = bench.error(("  ctl1:\n", f"  {name}:\n"), ("[ctl1]", f"[{name}]"), ("[ctl1]", f"[{name}]"))
    assert wheres(error) == [f"hosts.{name}"]
    assert f"'{name}'" in error.mistakes[0].message
    if name == "all":
        sentences.check(SENTENCES, "a name that is Ansible's", [error.mistakes[0].message])


def test_a_machine_called_like_a_bmc(bench):
    error = bench.error(("    nodes: cpu[01-04]", "    nodes: gpu01-bmc,cpu[02-04]"))
    (mistake,) = error.mistakes
    assert mistake.where == "racks"
    assert all(name in mistake.message for name in ("'gpu01-bmc'", " gpu01 "))
    sentences.check(SENTENCES, "a machine called like a BMC", [mistake.message])


def test_a_bmc_address_without_a_network(bench):
    error = bench.error(("  bmc:\n    cidr: 10.0.1.0/24\n", ""), ("0.10\n", "0.10\n    bmc_address: 10.0.1.9\n"))
    assert wheres(error) == ["hosts.ctl1.bmc_address"]
    assert all(key in error.mistakes[0].message for key in ("`bmc`", "`networks`"))
    sentences.check(SENTENCES, "a BMC's address without a network", [error.mistakes[0].message])


def test_gpu_detection_needs_a_release_that_has_it(bench):
    error = bench.error(("      count: 8", "      count: 8\n      detect: nvidia"), ("24.11", "23.02"))
    assert wheres(error) == ["profiles.gpu8.gpus.detect"]
    assert all(value in error.mistakes[0].message for value in ("AutoDetect=nvidia", "24.11", "23.02"))
    sentences.check(SENTENCES, "GPU detection of a later release", [error.mistakes[0].message])


def test_a_selector_that_names_nothing(bench):
    spare = "  spare: {sockets: 1, cores_per_socket: 1, memory_mib: 1000}\nracks:\n"
    error = bench.error(("racks:\n", spare), ("    nodes: all", "    nodes: profile:spare"))
    (mistake,) = error.mistakes
    assert mistake.where == "partitions.every.nodes"
    assert "'profile:spare'" in mistake.message
    sentences.check(SENTENCES, "a selector that names nothing", [mistake.message])


def test_what_is_wrong_with_a_rack_is_not_told_of_those_who_name_its_nodes(bench):
    error = bench.error(("nodes: gpu[01-04]", "nodes: gpu[01-04"), ("nodes: model:h100", "nodes: gpu[01-02]"))
    assert wheres(error) == ["racks.r1.nodes"]


@pytest.mark.parametrize(
    ("case", "text", "line", "values"),
    [
        ("no text", "", 1, []),
        ("a list", "- a\n", 1, []),
        ("", "plugin: x\n  site: y\n", 2, ["YAML"]),
        ("", "plugin: [x\n", 2, ["YAML"]),
        ("", "a: !vault x\n", 1, ["YAML", "'!vault'"]),
        ("a key that is a list", "? [a]\n: 1\n", 1, ["key"]),
        ("an alias within what it names", "a: &x\n  b: *x\n", 1, ["(*name)"]),
        ("a day that is none", "a: 2026-99-99\n", 1, ["YAML", "'2026-99-99'"]),
        ("", "a: 1\n---\nb: 1\n", 2, ["YAML"]),
        ("", "a: \x07\n", 1, ["YAML"]),
    ],
)
def test_what_is_no_yaml(bench, case, text, line, values):
    error = bench.error_of(text)
    (mistake,) = error.mistakes
    assert (mistake.line, mistake.where) == (line, "a" if "2026" in text else "the file")
    assert [value for value in values if value not in mistake.message] == []
    # What else is wrong with it is said by the library that reads YAML.
    if case:
        sentences.check(SENTENCES, f"not YAML: {case}", [mistake.message])


def test_a_key_that_is_written_twice_hides_no_other_mistake(bench):
    error = bench.error(("site: lab\n", "site: lab\nsite: lab\n"), ("    sockets: 2\n", "    sockets: two\n"))
    assert wheres(error)[:2] == ["site", "profiles.gpu8.sockets"]
    assert all(value in error.mistakes[0].message for value in ("'site'", "line 3"))
    sentences.check(SENTENCES, "a key that is written twice", [error.mistakes[0].message])


@pytest.mark.parametrize(
    ("value", "shown"), [("7", "7"), ("2026-11-23", "2026-11-23"), ("no", "false"), ("12.9", "12.9")]
)
def test_what_yaml_does_not_read_as_text_is_to_be_quoted_also_as_the_only_element_of_a_list(bench, value, shown):
    error = bench.error(("controllers: [ctl1]", f"controllers: {value}"), ("site: lab", f"site: {value}"))
    said = [one.message for one in error.mistakes if one.where in ("site", "services.controllers")]
    assert [text.split(" ")[0] for text in said] == [shown] * 2
    assert len(set(said)) == 1
    if value == "7":
        sentences.check(SENTENCES, "a number for a text", said[:1])


def test_a_corrected_file_is_read_again(bench):
    bench.error(("site: lab", "sitee: lab"))
    assert bench.load().site == "lab"
    assert bench.load(("site: lab", "site: other")).site == "other"


def test_no_rack_with_nodes(bench):
    text = bench.text()
    racks = text[text.index("racks:\n") : text.index("hosts:\n")]
    error = bench.error((racks, "racks:\n  r1: {}\n"))
    (told,) = [mistake.message for mistake in error.mistakes if mistake.where == "racks"]
    sentences.check(SENTENCES, "no rack with nodes", [told])


def test_a_host_in_a_rack_that_could_not_be_read(bench):
    error = bench.error(("  b[1-2]:", "  b[2-1]:"), ("    address: 10.0.0.10", "    address: 10.0.0.10\n    rack: b1"))
    assert wheres(error) == ["racks.b[2-1]"]


@pytest.mark.parametrize(
    ("accounts", "where"),
    [
        ("    Top: {}\n    research: {parent: top}", ["slurm.accounts.Top"]),
        ("    Top: {}\n    research: {parent: Top}", ["slurm.accounts.Top", "slurm.accounts.research.parent"]),
        ("    research: {default_qos: high, qos: [high]}\n  qos:\n    HIGH: {}", ["slurm.qos.HIGH"]),
    ],
)
def test_a_name_with_capitals_is_told_where_it_is_written(bench, accounts, where):
    error = bench.error(("    research:\n      users: [alice]", accounts))
    assert wheres(error) == where


@pytest.mark.parametrize(
    "edits",
    [
        [
            ("    MessageTimeout: 30", "    HashPlugin: hash/sha3"),
            ("    PurgeJobAfter: 12months", "    HashPlugin: hash/sha3"),
        ],
        [("    MessageTimeout: 30", "    HashPlugin: hash/k12")],
        [("    PurgeJobAfter: 12months", "    HashPlugin: Hash/K12")],
    ],
    ids=["stated in both", "default in slurm.conf", "default in slurmdbd.conf"],
)
def test_one_hash_plugin_in_both_files(bench, edits):
    bench.load(*edits)


_STACK = "gpu_stack: {os: debian-13, source: debian, driver: '550', "


@pytest.mark.parametrize(
    ("section", "shown"),
    [
        (_STACK + "mirror: {url: 'user:s3cret@host/path', key: a.asc}}", "'...@host/path'"),
        (_STACK + "mirror: {url: 'token-s3cret@host/path', key: a.asc}}", "'...@host/path'"),
        (_STACK + "urls: {debian: 'ftp://user:se/s3cret@host/path'}}", "'...@host/path'"),
        (_STACK + 'urls: {debian: "http://us\'s3cret:a b@host/path"}}', "...@host/path"),
        ("package_access: {proxy: 'user:a s3cret@host:3128'}", "'...@host:3128'"),
        ("package_access: {proxy: ['http://user:s3cret@host']}", "a list"),
        ("package_access: {logins: [{url: http://m, user: a, password: 'My-s3cret'}]}", "'...'"),
        ("package_access: {no_proxy: 'user:s3cret@host'}", "'...@host'"),
        ("package_access: {'http://user:s3cret@host': a}", "'...@host'"),
    ],
)
def test_a_message_shows_no_password(bench, section, shown):
    text = str(bench.error(("profiles:\n", f"{section}\nprofiles:\n")))
    assert shown in text
    assert "s3cret" not in text


def test_a_user_is_shown_where_no_password_can_be(bench):
    assert "'alice@example'" in str(bench.error(("      gpu02:", "      alice@example:")))


def test_a_section_without_a_value_is_one_mistake(bench):
    text = bench.text()
    error = bench.error_of(text[: text.index("racks:\n")] + "racks:\n" + text[text.index("\nhosts:\n") :])
    assert wheres(error).count("racks") == 1
