"""An import from the source to the file: by name, by serial number, and nothing half-written."""

from __future__ import annotations

from pathlib import Path

import pytest

from ansible_collections.bedplate.cluster.plugins.plugin_utils.cluster import load
from ansible_collections.bedplate.cluster.plugins.plugin_utils.machines.machine_record import Machine, read, text_of
from ansible_collections.bedplate.cluster.plugins.plugin_utils.machines.sources.chosen_source import source_of
from ansible_collections.bedplate.cluster.plugins.plugin_utils.machines.sources.import_report import (
    ImportReport,
    as_result,
    import_machines,
    replaced_of,
)
from ansible_collections.bedplate.cluster.plugins.plugin_utils.machines.sources.machine_row import SourceError
from tests.kit import sentences

SENTENCES = Path(__file__).parents[1] / "sentences.txt"
BASE = (Path(__file__).parents[3] / "unit/cluster/base.yml").read_text()


class Site:
    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.file = folder / "lab.bedplate.yml"
        self.file.write_text(BASE)
        self.cluster = load(self.file)
        self.record = folder / "lab.machines.json"

    def has(self, **machines: Machine) -> None:
        self.record.write_text(text_of(machines, list(self.cluster.machines)))

    def read(self) -> dict[str, Machine]:
        return read(self.file, list(self.cluster.machines))

    def run(self, text: str, *replaced: str, write: bool = True) -> ImportReport:
        (self.folder / "m.csv").write_text(text)
        return import_machines(self.cluster, source_of(f"csv:{self.folder / 'm.csv'}"), replaced, write=write)


@pytest.fixture
def site(tmp_path: Path) -> Site:
    return Site(tmp_path)


def test_a_first_import(site):
    text = "name,serial,boot_mac\ngpu02,S2,3C-EC-EF-00-02-02\nGPU01.lab.internal,S1,\nctl1,S0,N/A\ngpu99,S99,\n"
    predicted = site.run(text, write=False)
    assert (predicted.changed, site.record.exists()) == (True, False)
    report = site.run(text)
    assert site.read() == {
        "ctl1": Machine(serial="S0"), "gpu01": Machine(serial="S1"), "gpu02": Machine("S2", boot_mac="3c:ec:ef:00:02:02"),
    }  # fmt: skip
    assert site.record.read_text() == predicted.diff["after"] == report.diff["after"]
    assert report.diff["before"] == ""
    assert (report.missing, report.findings) == ("cpu[01-04],gpu[03-04]", [])
    sentences.check(SENTENCES, "a first import", as_result(report)["lines"])
    again = site.run(text)
    assert (again.changed, again.table) == (False, [])
    sentences.check(SENTENCES, "the second import", as_result(again)["lines"])


def test_a_name_of_another_domain_is_another_machine(site):
    report = site.run("name,serial\ngpu01.east.example.org,S1\n")
    assert (report.changed, len(report.unmapped), site.record.exists()) == (False, 1, False)


def test_a_machine_without_a_name_is_found_by_its_serial_number(site):
    site.has(gpu03=Machine(serial="S3"))
    site.run("asset,serial number,bmc mac\nrack7-u3,s3,3c:ec:ef:00:03:01\n".replace("s3,", "S3,"))
    assert site.read()["gpu03"] == Machine(serial="S3", bmc_mac="3c:ec:ef:00:03:01")


def test_a_machine_that_answers_differently_is_a_finding_and_the_rest_is_written(site):
    site.has(gpu01=Machine(serial="S1"), gpu02=Machine(serial="S2"))
    text = "name,serial,disk_serial\ngpu01,S9,D1\ngpu03,S2,D3\ngpu04,S4,\n"
    report = site.run(text)
    assert [(one.kind, one.machine, one.where) for one in report.findings] == [
        ("machine-differs", "gpu01", "serial"),
        ("machine-taken", "gpu03", "serial"),
    ]
    assert site.read() == {
        "gpu01": Machine("S1"), "gpu02": Machine(serial="S2"), "gpu04": Machine(serial="S4"),
    }  # fmt: skip
    sentences.check(SENTENCES, "findings of an import", [*as_result(report)["lines"], *as_result(report)["findings"]])
    again = site.run(text)
    assert (again.changed, len(again.findings)) == (False, 2)
    replaced = site.run(text, "gpu01")
    assert (replaced.changed, len(replaced.findings), site.read()["gpu01"].serial) == (True, 1, "S9")
    assert site.read()["gpu01"].disk_serial == "D1"


def test_with_any_mistake_nothing_is_written(site):
    text = "name,serial,boot_mac\ngpu01,S1,3c:ec:ef:00:01\ngpu02,S 2,\ngpu03,S3,\ngpu03,S4,\ngpu99,S 9,\n"
    with pytest.raises(SourceError) as error:
        site.run(text)
    assert not site.record.exists()
    found = [one.replace(f"{site.folder}/", "") for one in error.value.mistakes]
    assert [one.partition(": ")[0] for one in found] == ["m.csv:2", "m.csv:3", "m.csv:5"]
    sentences.check(SENTENCES, "mistakes of an import", found)


def test_the_whole_site_of_an_inventory_is_not_printed(site):
    rows = "".join(f"other{number},S{number}\n" for number in range(500))
    lines = as_result(site.run(f"name,serial\n{rows}"))["lines"]
    assert len(lines) == 22
    assert lines[-1] == "... and 480 more"


def test_names_to_replace(site):
    assert replaced_of("", site.cluster) == []
    assert replaced_of("gpu[01-02]", site.cluster) == ["gpu01", "gpu02"]
    for text in ("gpu[01", "gpu[01-09]", "all"):
        with pytest.raises(SourceError, match="import_replace"):
            replaced_of(text, site.cluster)


def test_a_thousand_machines_take_less_than_a_second(site):
    text = (
        BASE.replace("gpu[01-04]", "gpu[0001-1000]").replace("gpu02:", "gpu0002:").replace("10.0.0.0/24", "10.0.0.0/20")
    )
    site.file.write_text(text.replace("cidr: 10.0.1.0/24", "cidr: 10.2.0.0/20"))
    site.cluster = load(site.file)
    rows = "".join(
        f"gpu{number:04d},S{number},3c:ec:ef:01:{number // 256:02x}:{number % 256:02x},3c:ec:ef:02:{number // 256:02x}:{number % 256:02x}\n"
        for number in range(1, 1001)
    )
    report = site.run(f"name,serial,bmc_mac,boot_mac\n{rows}")
    assert len(report.table) == 3001
    assert len(site.record.read_text().splitlines()) == 1006
