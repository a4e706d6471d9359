"""What the running Slurm says, seen from the controller: the cluster of slurm.bedplate.yml and nothing else."""

from __future__ import annotations

import base64
import json
import time

import pytest

from lab.scenario_site import CONTROLLER

testinfra_hosts = ["ansible://slurm_controllers"]

# Opens each device node: an allocated one reaches the (absent) driver, any other is refused by the job's cgroup.
PROBE = r"""
import errno, glob, os
print(os.uname().nodename, os.environ.get("CUDA_VISIBLE_DEVICES"))
for path in sorted(glob.glob("/dev/nvidia[0-9]")):
    try:
        os.open(path, os.O_RDWR)
        print(path, "opened")
    except OSError as error:
        print(path, errno.errorcode[error.errno])
"""


def wait_for(host, command: str, wanted: str, seconds: int = 30) -> str:
    deadline = time.monotonic() + seconds
    while True:
        found = host.check_output(command)
        if found == wanted or time.monotonic() > deadline:
            return found
        time.sleep(1)


def test_partitions_and_nodes(host):
    command = "sinfo --noheader --format='%P,%a,%l,%D,%t,%N' | sort"
    wanted = (
        "debug,up,infinite,1,idle,gpu01\ngpu*,up,1-00:00:00,2,idle,gpu[01-02]\nurgent,up,infinite,2,idle,gpu[01-02]"
    )
    assert wait_for(host, command, wanted) == wanted


def test_hardware_is_the_profile(host):
    found = host.check_output("sinfo --noheader --Node --partition=gpu --format='%N %G %c %m %f'")
    assert found.splitlines() == [
        "gpu01 gpu:sim:2 2 960 sim,rack_r1",
        "gpu02 gpu:sim:2 2 960 sim,rack_r2",
    ]


def test_topology_is_leaf_per_rack(host):
    lines = host.check_output("scontrol show topology").splitlines()
    switches = {line.split()[0]: line for line in lines if line.startswith("SwitchName")}
    assert set(switches) == {"SwitchName=leaf-r1", "SwitchName=leaf-r2", "SwitchName=top"}
    assert "Nodes=gpu01" in switches["SwitchName=leaf-r1"].split()
    assert "Switches=leaf-r[1-2]" in switches["SwitchName=top"].split()


def test_a_job_gets_its_gpus_and_no_other(host):
    probe = base64.b64encode(PROBE.encode()).decode()
    run = f"""python3 -c "exec(__import__('base64').b64decode('{probe}'))" """
    found = host.check_output(f"srun --account=research --gres=gpu:1 --nodes=1 --nodelist=gpu01 {run}")
    assert found.splitlines() == ["gpu01 0", "/dev/nvidia0 ENXIO", "/dev/nvidia1 EPERM"]


def test_a_job_without_gpus_gets_none(host):
    command = "srun --account=research --nodelist=gpu02 bash -c 'exec 3<>/dev/nvidia0' 2>&1 | grep -c 'Operation not permitted'"
    assert host.check_output(command) == "1"


def test_a_job_on_two_nodes_is_accounted(host):
    out = host.check_output(
        "sbatch --parsable --wait --account=research --nodes=2 --gres=gpu:2 --output=/dev/null --wrap='srun hostname'"
    )
    job = out.strip()
    wanted = f"{job}|COMPLETED|gpu[01-02]"
    command = f"sacct --noheader --parsable2 --allocations --jobs={job} --format=JobID,State,NodeList"
    assert wait_for(host, command, wanted) == wanted
    assert "gres/gpu=4" in host.check_output(
        f"sacct --noheader --parsable2 --allocations --jobs={job} --format=AllocTRES"
    )


def test_a_job_is_held_to_its_cores_and_memory(host):
    command = (
        "srun --account=research --nodelist=gpu01 --cpus-per-task=1 --mem=100 grep Cpus_allowed_list /proc/self/status"
    )
    assert host.check_output(command).split() == ["Cpus_allowed_list:", "0"]
    greedy = "srun --account=research --nodelist=gpu01 --mem=50 python3 -c 'bytearray(400*2**20)'"
    assert host.run(greedy).rc != 0


def test_users_without_account_are_refused(host):
    host.run("id bob || useradd bob")
    result = host.run("runuser -u bob -- srun --partition=gpu hostname")
    assert result.rc != 0
    assert "nvalid account" in result.stderr


def test_accounts(host):
    found = host.check_output(
        "sacctmgr --noheader --parsable2 list associations format=Account,User where account=research"
    )
    assert sorted(found.splitlines()) == ["research|", "research|alice", "research|root"]
    account = "sacctmgr --noheader --parsable2 list associations format=Account,DefaultQOS where account=research user="
    assert set(host.check_output(account).splitlines()) == {"research|normal"}


def test_the_qos_of_a_partition_limits_its_jobs(host):
    listed = host.check_output("sacctmgr --noheader --parsable2 list qos urgent format=Priority,MaxTRESPerUser")
    priority, limit = listed.split("|")
    assert (priority, set(limit.split(","))) == ("100", {"cpu=2", "gres/gpu=1"})
    run = "srun --account=research --partition=urgent --nodelist=gpu01"
    assert host.check_output(f"{run} --gres=gpu:1 hostname") == "gpu01"
    refused = host.run(f"{run} --gres=gpu:2 hostname")
    assert refused.rc != 0
    assert "QOS" in refused.stderr


@pytest.mark.parametrize("path", ["/etc/munge/munge.key", "/etc/slurm/jwt_hs256.key"])
def test_keys_are_readable_by_their_owner_alone(host, path):
    assert host.file(path).mode == 0o400


def test_rest_answers_with_a_token_and_not_without(host):
    url = "http://127.0.0.1:6820/slurm/v0.0.41/ping"
    token = host.check_output("scontrol token username=root lifespan=60").partition("=")[2]
    fetch = (
        "python3 -c \"import sys,urllib.request as u; r=u.Request(sys.argv[1],headers=dict(h.split(':') for h in sys.argv[2:]));"
        'print(u.urlopen(r,timeout=20).read().decode())" '
    )
    assert host.run(f"{fetch} {url}").rc != 0
    answer = json.loads(host.check_output(f"{fetch} {url} X-SLURM-USER-NAME:root X-SLURM-USER-TOKEN:{token}"))
    assert answer["pings"][0]["pinged"] == "UP"


def test_slurmrestd_is_neither_root_nor_slurm(host):
    (process,) = host.process.filter(comm="slurmrestd")
    assert process.user not in ("root", "slurm")


def test_the_database_is_not_on_the_network(host):
    assert host.socket("tcp://127.0.0.1:3306").is_listening
    assert not host.socket(f"tcp://{CONTROLLER}:3306").is_listening


def test_the_database_raises_no_errors_that_slurmdbd_cannot_recover_from(host):
    # Debian 13's MariaDB 11.8 has it on by default.
    assert host.check_output("mariadb --batch --skip-column-names -e 'SELECT @@innodb_snapshot_isolation'") == "0"
