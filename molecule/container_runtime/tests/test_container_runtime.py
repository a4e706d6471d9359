"""Real podman, docker, containerd and srun on Debian 13 and 12: they take the specification, and what they do not take is seen."""

from __future__ import annotations

import json
import re
import subprocess
from pathlib import Path

import pytest

from lab.scenario_run import machine, recap, run

testinfra_hosts = ["ansible://gpu_nodes"]

SCENARIO = Path(__file__).parents[1]
FILE = SCENARIO / "container_runtime.bedplate.yml"
CONVERGE = SCENARIO / "converge.yml"
SPEC = "/var/run/cdi/nvidia.yaml"
NOTE = "/run/bedplate/reboot-wanted/container_runtime"
TOOLKIT = (
    "nvidia-container-toolkit",
    "nvidia-container-toolkit-base",
    "libnvidia-container-tools",
    "libnvidia-container1",
)
PLUGIN = "/usr/local/lib/slurm/spank_pyxis.so"
# A container of a container: no limits of its own, no network, files as they are.
PODMAN = "podman --cgroup-manager=cgroupfs --runtime=crun run --rm --cgroups=disabled --network=none --log-driver=none"
PODMAN += " --security-opt=seccomp=unconfined --security-opt=apparmor=unconfined"


@pytest.fixture
def name(host) -> str:
    return host.check_output("hostname")


@pytest.fixture
def gpu1(request):
    """The node with a driver."""
    return machine(request.config, "gpu1")


@pytest.fixture
def gpu2(request):
    """The node of Debian 12, without a driver."""
    return machine(request.config, "gpu2")


@pytest.fixture
def specified(host):
    """Have a specification, also where no driver is: device files are there, which is all that the stand-in looks for."""
    there = host.file(SPEC).exists
    host.check_output(f"[ -e {SPEC} ] || nvidia-ctk cdi generate --output={SPEC}")
    yield
    if not there:
        host.check_output(f"rm -r {Path(SPEC).parent}")


def play(limit: str, *arguments: str, playbook: Path = CONVERGE) -> subprocess.CompletedProcess[str]:
    return run("container_runtime", playbook, FILE, f"--limit={limit}", *arguments)


def verify(limit: str, tmp_path: Path) -> subprocess.CompletedProcess[str]:
    playbook = tmp_path / "verify.yml"
    playbook.write_text(
        "- hosts: gpu_nodes\n  gather_facts: false\n  tasks:\n"
        "    - ansible.builtin.include_role: {name: bedplate.cluster.container_runtime, tasks_from: verify}\n"
    )
    return play(limit, playbook=playbook)


def seen(done: subprocess.CompletedProcess[str]) -> str:
    """Return the words of a run, which wraps them."""
    return " ".join((done.stdout + done.stderr).split())


def test_the_toolkit_is_of_one_version_and_held(host):
    shown = "${Package} ${db:Status-Status} ${Version}\\n"
    said = host.check_output(f"dpkg-query --show --showformat='{shown}' {' '.join(TOOLKIT)}").splitlines()
    assert [line.split()[1:] for line in said] == [["installed", "1.18.2-1"]] * 4
    assert set(TOOLKIT) <= set(host.check_output("apt-mark showhold").split())
    host.check_output("DEBIAN_FRONTEND=noninteractive apt-get --quiet --yes dist-upgrade")
    assert host.check_output(f"dpkg-query --show --showformat='{shown}' {' '.join(TOOLKIT)}").splitlines() == said


def test_one_unit_writes_the_specification_where_a_driver_is_loaded(host, name):
    unit = host.service("bedplate-cdi.service")
    assert unit.is_enabled
    assert host.run("systemctl is-enabled nvidia-cdi-refresh.service").stdout.strip() == "masked"
    assert host.run("systemctl is-active nvidia-cdi-refresh.path").stdout.strip() in ("inactive", "failed")
    assert host.file(SPEC).exists == unit.is_running == (name == "gpu1")
    # The toolkit's own unit would not have: its condition looks for a file of another name.
    assert host.run("grep -qE '/(nvidia|nvidia-current)[.]ko' /lib/modules/$(uname -r)/modules.dep").rc != 0


def test_it_is_written_at_every_boot_and_after_a_change(gpu1):
    gpu1.check_output(f"rm {SPEC}; systemctl restart bedplate-cdi.service")
    assert gpu1.check_output("nvidia-ctk cdi list") == "nvidia.com/gpu=0\nnvidia.com/gpu=1\nnvidia.com/gpu=all"
    # A boot: what multi-user.target wants is started, and what lay in memory is gone.
    gpu1.check_output(f"systemctl stop bedplate-cdi.service; rm {SPEC}; systemctl start multi-user.target")
    assert gpu1.file(SPEC).exists
    said = gpu1.check_output("systemctl list-dependencies --plain multi-user.target")
    assert "bedplate-cdi.service" in said


def test_the_rule_of_udev_is_one(gpu1):
    gpu1.check_output("udevadm verify /etc/udev/rules.d/71-bedplate-cdi.rules")


def test_podman_gives_a_container_the_gpu_it_asked_for_and_no_other(host, specified):
    device = f"{PODMAN} --device nvidia.com/gpu=1 --rootfs /srv/image /bin/ls /dev"
    inside = host.check_output(device).split()
    assert "nvidia1" in inside
    assert "nvidiactl" in inside
    assert "nvidia0" not in inside
    plain = host.check_output(f"{PODMAN} --rootfs /srv/image /bin/ls /dev").split()
    assert not [one for one in plain if one.startswith("nvidia")]


def test_podman_refuses_a_gpu_that_is_not_there(host, specified):
    asked = host.run(f"{PODMAN} --device nvidia.com/gpu=7 --rootfs /srv/image /bin/ls /dev")
    assert asked.rc != 0
    assert "unresolvable CDI devices nvidia.com/gpu=7" in asked.stderr


def test_docker_reads_specifications_and_keeps_the_sites_settings(gpu1):
    told = json.loads(gpu1.check_output("docker info --format '{{json .}}'"))
    assert told["CDISpecDirs"] == ["/etc/cdi", "/var/run/cdi"]
    assert told["LoggingDriver"] == "local"
    text = gpu1.file("/etc/docker/daemon.json").content_string
    assert json.loads(text) == {
        "log-driver": "local", "bridge": "none", "iptables": False, "features": {"cdi": True}
    }  # fmt: skip
    assert '    "log-driver": "local",\n' in text


def test_docker_gives_a_container_the_gpu_it_asked_for_and_refuses_one_that_is_not_there(gpu1):
    gpu1.check_output("tar --create --directory /srv/image . | docker import - tiny")
    docker = "docker run --rm --network=none --cgroupns=private --device nvidia.com/gpu={} tiny /bin/ls /dev"
    inside = gpu1.check_output(docker.format(1)).split()
    assert {one for one in inside if one.startswith("nvidia")} == {"nvidia1", "nvidiactl"}
    asked = gpu1.run(docker.format(7))
    assert asked.rc != 0
    assert "unresolvable CDI devices nvidia.com/gpu=7" in asked.stderr


def test_docker_without_cdi_gets_the_runtime_that_reads_it(gpu2):
    told = json.loads(gpu2.check_output("docker info --format '{{json .}}'"))
    assert {"runc", "nvidia"} <= set(told["Runtimes"])
    assert told["LoggingDriver"] == "local"
    assert 'mode = "cdi"' in gpu2.file("/etc/nvidia-container-runtime/config.toml").content_string


def test_containerd_takes_its_settings_and_keeps_the_distributions(host, name):
    said = host.check_output("containerd config dump")
    # Debian's own, which a file in conf.d would have taken away in 1.6.
    assert 'bin_dir = "/usr/lib/cni"' in said
    assert "containerd.runtimes.runc]" in said
    if name == "gpu1":
        assert "enable_cdi = true" in said
    else:
        assert 'BinaryName = "/usr/bin/nvidia-container-runtime"' in said
    assert host.service("containerd").is_running


def test_srun_has_loaded_pyxis(gpu1):
    assert "--container-image=IMAGE" in gpu1.check_output("srun --help")
    record = json.loads(gpu1.file("/var/lib/bedplate/pyxis.json").content_string)
    assert record["slurm"] == gpu1.check_output("srun --version").split()[-1]
    assert gpu1.check_output("enroot version") == "4.1.2"


def test_pyxis_is_built_again_for_another_slurm(gpu1):
    # As after an upgrade: what is on record is of another release.
    gpu1.check_output(
        f'sed -i \'s/"slurm": "[0-9.]*"/"slurm": "23.11.1"/\' /var/lib/bedplate/pyxis.json; touch {PLUGIN}'
    )
    before = gpu1.check_output(f"stat --format=%i {PLUGIN}")
    done = play("gpu1")
    assert done.returncode == 0, seen(done)
    assert recap(done.stdout)["gpu1"]["changed"] == 1
    assert gpu1.check_output(f"stat --format=%i {PLUGIN}") != before
    assert "--container-image" in gpu1.check_output("srun --help")


def test_headers_of_another_slurm_are_refused_and_the_plugin_stays(gpu1):
    header = "/usr/include/slurm/slurm_version.h"
    gpu1.check_output(
        f"cp {header} /root/header; sed -i 's/0x180b05/0x160508/' {header}; echo '{{}}' >/var/lib/bedplate/pyxis.json"
    )
    try:
        done = play("gpu1")
        assert done.returncode != 0
        assert "22.05.8" in seen(done)
        assert "--container-image" in gpu1.check_output("srun --help")
    finally:
        gpu1.check_output(f"cp /root/header {header}")
    assert play("gpu1").returncode == 0


def test_an_archive_of_another_checksum_stops_the_run_before_any_machine_is_touched(gpu1):
    archive = SCENARIO.parents[1] / ".cache/lab/molecule-container_runtime/pyxis-0.24.0.tar.gz"
    wrong = {"container_runtime_pyxis": {"source": str(archive), "sha256": "0" * 64}}
    done = play("gpu1", f"--extra-vars={json.dumps(wrong)}")
    assert done.returncode != 0
    assert f"not {'0' * 64}: " in seen(done)
    assert "changed: [" not in done.stdout


def test_an_engine_that_a_system_lacks_is_refused_with_what_there_is(gpu2):
    done = play("gpu2", "--extra-vars={container_runtime_engines: [crio]}")
    assert done.returncode != 0
    assert re.search(r"\bcrio [a-z ]*debian-12 [a-z ]*; [a-z]*: podman, docker, containerd, enroot", seen(done))
    assert "changed: [" not in done.stdout


def test_an_engine_that_runs_a_container_is_not_restarted(gpu1):
    # A shim as docker's daemon has one for each of its containers.

    script = "exec -a /usr/bin/containerd-shim-runc-v2 python3 -c 'import time; time.sleep(900)' -namespace moby"
    gpu1.check_output("systemd-run --unit=a-container bash -c %s", script)
    before = gpu1.check_output("systemctl show --property=MainPID docker.service")
    gpu1.check_output('sed -i \'s/"cdi": true/"cdi": false/\' /etc/docker/daemon.json')
    try:
        done = play("gpu1")
        assert done.returncode == 0, seen(done)
        assert gpu1.check_output("systemctl show --property=MainPID docker.service") == before
        assert re.search(r"docker\.service [a-z ]* /etc/docker/daemon\.json", gpu1.file(NOTE).content_string)
        again = play("gpu1")
        assert recap(again.stdout)["gpu1"]["changed"] == 0
    finally:
        gpu1.check_output("systemctl stop a-container.service")
    done = play("gpu1")
    assert recap(done.stdout)["gpu1"]["changed"] == 1
    assert gpu1.check_output("systemctl show --property=MainPID docker.service") != before
    assert not gpu1.file(NOTE).exists


def test_settings_that_the_engine_refuses_are_not_written(gpu1):
    gpu1.check_output("cp /etc/docker/daemon.json /root/daemon.json")
    gpu1.check_output("""echo '{"log-drivr": "local"}' >/etc/docker/daemon.json""")
    try:
        done = play("gpu1")
        assert done.returncode != 0
        assert "log-drivr" in seen(done)
        assert gpu1.file("/etc/docker/daemon.json").content_string == '{"log-drivr": "local"}\n'
    finally:
        gpu1.check_output("cp /root/daemon.json /etc/docker/daemon.json")
    assert play("gpu1").returncode == 0


def test_verify_agrees(host, name, tmp_path):
    done = verify(name, tmp_path)
    assert done.returncode == 0, seen(done)


@pytest.mark.parametrize(
    ("fault", "told", "mend"),
    [
        ("apt-mark unhold libnvidia-container1", "libnvidia-container1: expected held", "apt-mark hold libnvidia-container1"),
        ("systemctl disable bedplate-cdi", "unit bedplate-cdi.service: expected enabled", "systemctl enable bedplate-cdi"),
        (f"rm {SPEC}", f"CDI specification {SPEC}: expected written at boot", "systemctl restart bedplate-cdi"),
        (f"sed -i /nvidia1/d {SPEC}", "expected a device for nvidia1, found none", "systemctl restart bedplate-cdi"),
        (
            "sed -i s/enable_cdi.*/enable_cdi=false/ /etc/containerd/config.toml",
            "containerd: expected enable_cdi = true, found false",
            "sed -i 's/enable_cdi.*/enable_cdi = true/' /etc/containerd/config.toml",
        ),
        (
            f"mv {PLUGIN} {PLUGIN}.away",
            "srun: expected the option --container-image",
            f"mv {PLUGIN}.away {PLUGIN}",
        ),
    ],
)  # fmt: skip
def test_verify_sees_what_is_not_as_it_was(gpu1, tmp_path, fault, told, mend):
    gpu1.check_output(fault)
    try:
        done = verify("gpu1", tmp_path)
        assert done.returncode != 0
        assert told in seen(done)
    finally:
        gpu1.check_output(mend)
