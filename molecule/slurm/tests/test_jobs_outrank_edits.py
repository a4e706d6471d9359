"""Edits of a profile under running jobs: nodes with jobs keep their lines, all others change at once, and a later run does the rest."""

from __future__ import annotations

import re

import pytest

from lab.scenario_site import CLUSTER_FILE, Site, arriving, edited, output_of, ssh, start_job, starts

testinfra_hosts = ["ansible://slurm_controllers"]

GPUS = 'gpus: {model: sim, count: 2, devices: "/dev/nvidia[0-1]"}'
OVERRIDES = "    SlurmdParameters: config_overrides\n"
FILES = "sha256sum /etc/slurm/*.conf"
# Edits of the profile, made at once, each with what scontrol shows of a node before and after.
EDITS = [
    ("cores_per_socket: 2", "cores_per_socket: 4", "CoresPerSocket=2", "CoresPerSocket=4"),
    ("threads_per_core: 1", "threads_per_core: 2", "ThreadsPerCore=1", "ThreadsPerCore=2"),
    ("memory_mib: 1024", "memory_mib: 900", "RealMemory=960", "RealMemory=836"),
    (
        GPUS,
        GPUS.replace("sim", "renamed").replace("2, ", "1, ").replace("[0-1]", "0"),
        "Gres=gpu:sim:2",
        "Gres=gpu:renamed:1",
    ),
]


# The last test brings back what the scenario says; between the tests the cluster may stay as one left it.
@pytest.fixture
def site(host, tmp_path):
    yield from edited(host, tmp_path)


def node(host, name: str) -> list[str]:
    """Return what slurmctld reports of a node, word by word."""
    return re.sub(r"\(S:[^)]*\)", "", host.check_output(f"scontrol --oneliner show node {name}")).split()


def hardware(host, name: str) -> list[str]:
    return [word for word in node(host, name) if word.startswith(("CoresPerSocket=", "RealMemory=", "Gres="))]


def judge(host, job: str) -> dict[str, str]:
    """Return how a job fares: its state, restarts and devices, and how often accounting knows it."""
    shown = host.check_output(f"scontrol --oneliner --details show job {job}")
    found = dict(re.findall(r"\b(JobState|Restarts|GRES)=(\S+)", shown))
    records = host.check_output(f"sacct --duplicates --allocations --noheader --jobs={job} --format=State").split()
    step = host.check_output(f"srun --overlap --jobid={job} sh -c 'echo $CUDA_VISIBLE_DEVICES; hostname'").split()
    return {**found, "records": " ".join(records), "step": " ".join(step)}


def fresh(site: Site, *edits: tuple[str, str]) -> None:
    site.path.write_text(CLUSTER_FILE)
    for old, new in edits:
        site.edit(old, new)


def test_a_node_with_jobs_keeps_its_hardware_and_a_later_run_changes_it(host, site):
    jobs = [
        start_job(host, "--nodelist=gpu01 --no-requeue --gres=gpu:1"),
        start_job(host, "--nodelist=gpu01 --gres=gpu:1"),
    ]
    before = [judge(host, job) for job in jobs]
    assert {one["JobState"] + one["Restarts"] + one["records"] for one in before} == {"RUNNING0RUNNING"}
    fresh(site, *((old, new) for old, new, _, _ in EDITS))
    result = site.run()
    assert result.returncode == 0, result.stdout[-6000:] + result.stderr[-2000:]
    assert [judge(host, job) for job in jobs] == before
    for text in ("gpu01", "ids " + ", ".join(jobs), *(kept.partition("=")[0] for _, _, kept, _ in EDITS)):
        assert text in output_of(result)
    assert {kept for _, _, kept, _ in EDITS} <= set(node(host, "gpu01"))
    assert {changed for _, _, _, changed in EDITS} <= set(node(host, "gpu02"))
    assert host.check_output("srun --account=research --nodelist=gpu02 hostname") == "gpu02"
    started = starts(host)
    assert {counters["changed"] for counters in site.apply().values()} == {0}
    assert starts(host) == started
    foretold = output_of(site.run("--check"))
    assert "gpu01" in foretold
    assert f"ids {', '.join(jobs)}" in foretold
    compared = site.run(playbook="verify.yml")
    assert compared.returncode == 0, compared.stdout[-6000:]
    assert re.search(r"notice .*node gpu01: .*Gres", output_of(compared))
    host.check_output(f"scancel {' '.join(jobs)}; while squeue --noheader --all | grep -q .; do sleep 1; done")
    site.apply()
    assert {changed for _, _, _, changed in EDITS} <= set(node(host, "gpu01"))
    assert "kept by bedplate" not in host.file("/etc/slurm/slurm.conf").content_string
    assert host.check_output("srun --account=research --nodelist=gpu01 --gres=gpu:1 hostname") == "gpu01"


@pytest.mark.full_in("slurm")
def test_a_second_edit_while_a_line_is_kept_keeps_it_as_it_was_at_first(host, site):
    site.apply()
    job = start_job(host, "--nodelist=gpu01 --gres=gpu:1 --no-requeue")
    before, line = judge(host, job), hardware(host, "gpu01")
    for edits in (EDITS[:1], EDITS):
        fresh(site, *((old, new) for old, new, _, _ in edits))
        result = site.run()
        assert result.returncode == 0, result.stdout[-6000:]
        assert f"ids {job}" in output_of(result)
        assert judge(host, job) == before
        assert hardware(host, "gpu01") == line
        assert {changed for _, _, _, changed in edits} <= set(node(host, "gpu02"))
    host.check_output(f"scancel {job}; while squeue --noheader --all | grep -q .; do sleep 1; done")
    site.apply()
    assert hardware(host, "gpu01") == hardware(host, "gpu02")
    assert {changed for _, _, _, changed in EDITS} <= set(node(host, "gpu01"))


@pytest.mark.parametrize("arguments", [[], pytest.param(["--check"], marks=pytest.mark.full_in("slurm"))], ids=str)
def test_hardware_that_no_node_has_is_refused_before_any_file_changes(host, site, arguments):
    job = start_job(host, "--nodelist=gpu01 --gres=gpu:1 --no-requeue")
    before = host.check_output(FILES), judge(host, job), node(host, "gpu02")[:10]
    site.edit('count: 2, devices: "/dev/nvidia[0-1]"', 'count: 4, devices: "/dev/nvidia[0-3]"')
    refused = site.run(*arguments)
    assert refused.returncode != 0
    for text in (f"{site.path}: profiles.sim.gpus.devices", "gpu[01-02]", "/dev/nvidia[2-3]"):
        assert text in output_of(refused)
    assert (host.check_output(FILES), judge(host, job), node(host, "gpu02")[:10]) == before


@pytest.mark.full_in("slurm")
def test_a_node_that_was_not_counted_keeps_its_line(host, site):
    site.apply()
    site.edit("memory_mib: 1024", "memory_mib: 900")
    result = site.run("--limit=ctl1,gpu01,localhost")
    assert result.returncode == 0, result.stdout[-6000:]
    assert re.search(r"gpu02: .{0,300}RealMemory 960 -> 836.{0,100}: waits", output_of(result))
    assert "RealMemory=836" in node(host, "gpu01")
    assert "RealMemory=960" in node(host, "gpu02")
    site.apply()
    assert "RealMemory=836" in node(host, "gpu02")


@pytest.mark.full_in("slurm")
def test_without_overrides_a_profile_may_say_what_slurmd_finds_and_no_more(host, site):
    found = ssh("gpu01", "slurmd -C").stdout
    has = dict(re.findall(r"(\w+)=(\w+)", found))
    memory = int(has["RealMemory"])
    shape = [
        ("sockets: 1", f"sockets: {has['SocketsPerBoard']}"),
        ("cores_per_socket: 2", f"cores_per_socket: {has['CoresPerSocket']}"),
        ("threads_per_core: 1", f"threads_per_core: {has['ThreadsPerCore']}"),
        (OVERRIDES, "    MessageTimeout: 31\n"),
    ]
    fresh(site, *shape, ("memory_mib: 1024", f"memory_mib: {memory + 64}"))
    site.apply()
    for name in ("gpu01", "gpu02"):
        assert f"RealMemory={memory}" in node(host, name)
        assert "State=IDLE" in node(host, name)
    before = host.check_output(FILES)
    fresh(site, *shape[:1], *shape[2:], ("memory_mib: 1024", f"memory_mib: {memory + 65}"),
          ("cores_per_socket: 2", f"cores_per_socket: {int(has['CoresPerSocket']) + 1}"))  # fmt: skip
    refused = site.run()
    assert refused.returncode != 0
    for text in ("profiles.sim.sockets x cores_per_socket", f"{memory + 1} MiB", f"{memory} MiB", "gpu[01-02]"):
        assert text in output_of(refused)
    assert host.check_output(FILES) == before


@pytest.mark.parametrize(
    "edits",
    [
        pytest.param([("cores_per_socket: 2", "cores_per_socket: 4")], marks=pytest.mark.full_in("slurm")),
        pytest.param([("model: sim", "model: renamed")], marks=pytest.mark.full_in("slurm")),
        [],
    ],
    ids=["cores", "model", "back"],
)
def test_jobs_that_arrive_during_the_run_are_not_lost(host, site, edits):
    in_force = hardware(host, "gpu01")
    with arriving(host):
        fresh(site, *edits)
        site.apply()
    # Where a job ran on every node all the time, the edit has waited.
    site.apply()
    assert hardware(host, "gpu01") != in_force
