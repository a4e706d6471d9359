"""Which lines a refusal of slurmctld is about."""

from __future__ import annotations

from pathlib import Path

import pytest

from ansible_collections.bedplate.cluster.plugins.plugin_utils.slurm.refused_lines import explain
from tests.kit import sentences
from tests.unit.slurm.test_scripts import BASE

SENTENCES = Path(__file__).with_name("sentences.txt")
FILES = {
    "slurm.conf": "ClusterName=lab\nMessageTimeout=30\nPrologSlurmctld=/opt/none\nJobSubmitPlugins=lua\nSelectType=select/x\n"
}


@pytest.fixture
def cluster_file(tmp_path):
    path = tmp_path / "lab.bedplate.yml"
    path.write_text(BASE)
    return str(path)


@pytest.mark.parametrize(
    ("said", "line"),
    [
        ("fatal: Invalid PrologSlurmctld(`/opt/none`): No such file", "slurm.conf:3: PrologSlurmctld=/opt/none"),
        ("fatal: failed to initialize job_submit plugin", "slurm.conf:4: JobSubmitPlugins=lua"),
        ("fatal: Can't find plugin for select/x", "slurm.conf:5: SelectType=select/x"),
        ("error: Parse error in file /etc/slurm/slurm.conf line 5: x", "slurm.conf:5: SelectType=select/x"),
    ],
)
def test_the_line_is_named(said, line, cluster_file):
    text = explain(f"slurmctld.service: x\nctl1 slurmctld[1]: slurmctld: {said}\n\nRestored: y", FILES, cluster_file)
    places = [one.strip() for one in text.splitlines() if one.startswith("  ")]
    assert [one.partition("  (from")[0] for one in places] == [line]
    assert text.endswith("Restored: y")


def test_the_line_of_the_cluster_file_is_named(cluster_file):
    text = explain("fatal: bad MessageTimeout", FILES, cluster_file)
    line = next(number for number, one in enumerate(BASE.splitlines(), 1) if "MessageTimeout" in one)
    assert f"{cluster_file}:{line}: slurm.options.MessageTimeout" in text
    sentences.check(
        SENTENCES, "lines that a refusal names", [text.replace(f"{cluster_file}:{line}", "lab.bedplate.yml:7")]
    )


def test_a_message_that_names_nothing_stays_as_it_is(cluster_file):
    assert explain("no answer", FILES, cluster_file) == "no answer"


def test_limits_that_slurmctld_counts_anew_are_not_the_cause(cluster_file):
    limit = "slurmctld: error: _handle_assoc_tres_run_secs: job 3: assoc 1 TRES cpu grp_used_tres_run_secs underflow"
    files = {**FILES, "slurm.conf": FILES["slurm.conf"] + "TRES=gres/gpu\n"}
    cause = "fatal: failed to initialize job_submit plugin"
    text = explain(f"{limit}\nslurmctld: {cause}\n{limit}", files, cluster_file)
    assert text.splitlines()[0] == cause
    assert "underflow" not in text
    assert "TRES=" not in text


@pytest.mark.parametrize("number", [0, 99])
def test_a_line_that_is_not_there_is_left_out(number, cluster_file):
    said = f"error: Parse error in file /etc/slurm/slurm.conf line {number}: x"
    assert explain(said, FILES, cluster_file) == said


def test_words_of_every_message_name_no_option(cluster_file):
    files = {"slurm.conf": "AccountingStorageTRES=gres/gpu\n"}
    assert explain("error: accounting_storage: x", files, cluster_file) == "error: accounting_storage: x"


def test_without_a_cluster_file_that_can_be_read_the_line_of_slurm_conf_stays(tmp_path):
    text = explain("fatal: bad MessageTimeout", FILES, str(tmp_path / "none.yml"))
    assert "slurm.conf:2: MessageTimeout=30" in text
