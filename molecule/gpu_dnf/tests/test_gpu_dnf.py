"""The GPU software on a node of dnf: Debian's real dnf 4, rpm and versionlock, and signed rpms with module streams as NVIDIA has them.

The rpms are stand-ins without scripts, so installing one builds no module, and that the module for the next boot is missing is the one
thing that verify has to tell. The proof before it is real: dnf fetches the rpm, and DKMS compiles what is in it, against Debian's headers.
The machine is Debian's container, with EL's settings of dnf.
"""

from __future__ import annotations

import json
import re
import subprocess
from pathlib import Path

import pytest

from lab.paths import state_of
from lab.scenario_run import recap, run
from tests.kit.second_module import NAME, VERSION, second_module

testinfra_hosts = ["ansible://gpu_nodes"]

SCENARIO = Path(__file__).parents[1]
ROOT = SCENARIO.parents[1]
KEYS = state_of("molecule-gpu_dnf") / "vendor/public/keys"
PLAYBOOK = ROOT / "playbooks/gpu.yml"
VERIFY = ROOT / "playbooks/verify.yml"
RESOLVE = ROOT / "playbooks/gpu_resolve.yml"
OLD, NEW, BROKEN, UNKNOWN = "580.65.06", "590.48.01", "595.71.05", "999.10.01"
KERNEL, LATER_KERNEL = "5.14.0-503.11.1.el9_5", "5.14.0-570.12.1.el9_6"
LOCKS = "/etc/dnf/plugins/versionlock.list"
REPOSITORY, KEY = "/etc/yum.repos.d/bedplate-nvidia.repo", "/etc/pki/rpm-gpg/RPM-GPG-KEY-bedplate-nvidia"
STREAM = "/etc/dnf/modules.d/nvidia-driver.module"
COUPLED = (
    "kmod-nvidia-open-dkms",
    "nvidia-kmod-common",
    "nvidia-driver-cuda",
    "nvidia-driver-cuda-libs",
    "libnvidia-ml",
)
HGX = ("nvidia-fabricmanager", "libnvidia-nscq")
# Of the driver's set, with its version and others.
OF_DRIVER = re.compile(r"kmod-nvidia|(?:lib)?nvidia-(?!container)")


def play(cluster_file: Path, *arguments: str, playbook: Path = PLAYBOOK) -> subprocess.CompletedProcess[str]:
    return run("gpu_dnf", playbook, cluster_file, *arguments)


def verify() -> subprocess.CompletedProcess[str]:
    return play(SCENARIO / "gpu_dnf.bedplate.yml", "--tags=gpu", playbook=VERIFY)


@pytest.fixture
def other(tmp_path: Path):
    """Return a function that writes the scenario's cluster file with other words."""

    def write(words: dict[str, str]) -> Path:
        text = (SCENARIO / "gpu_dnf.bedplate.yml").read_text().replace("keys/", f"{KEYS}/")
        for old, new in words.items():
            assert old in text
            text = text.replace(old, new)
        path = tmp_path / "other.bedplate.yml"
        path.write_text(text)
        return path

    return write


def installed(host) -> dict[str, list[str]]:
    """Return package -> versions of all that rpm has."""
    said = host.check_output(
        "rpm -qa --queryformat '%{NAME} %{EPOCHNUM}:%{VERSION}-%{RELEASE}\\n' | grep -v ^gpg-pubkey | sort"
    )
    found: dict[str, list[str]] = {}
    for line in said.splitlines():
        name, version = line.split()
        found.setdefault(name, []).append(version)
    return found


def of_driver(host) -> dict[str, str]:
    return {name: version for name, (version,) in installed(host).items() if OF_DRIVER.match(name)}


def holds_exactly(host, version: str, *, locked: bool = False) -> None:
    """Assert that one version of every package of the driver is there, of its stream, and the only one that dnf would take.

    `locked`: the lock of the cluster file has its release, too.
    """
    packages = of_driver(host)
    assert {*COUPLED, *HGX, "nvidia-modprobe"} <= set(packages)
    assert {one.partition(":")[2] for one in packages.values()} == {f"{version}-1.el9"}
    assert host.file(STREAM).content_string.count(f"stream={version[:3]}-open\n") == 1
    assert f"nvidia-driver {version[:3]}-open [e]" in re.sub(" +", " ", host.check_output("dnf module list --enabled"))
    locks = host.check_output("dnf --quiet versionlock list").splitlines()
    assert f"kmod-nvidia-open-dkms-3:{version}-{'1.el9' if locked else '*'}.*" in locks
    offered = host.check_output("dnf --quiet repoquery --qf '%{version}\\n' " + " ".join(packages)).split()
    assert set(offered) == {version}


def test_one_version_of_everything(host):
    holds_exactly(host, OLD)
    packages = installed(host)
    assert packages["cuda-toolkit-12-9"][0].startswith("0:12.9.")
    assert packages["cuda-toolkit-13-0"][0].startswith("0:13.0.")
    assert [packages[name] for name in ("libnccl", "libnccl-devel")] == [["0:2.28.9-1+cuda12.9"]] * 2
    assert {name for name in packages if name.startswith("datacenter")} == {
        "datacenter-gpu-manager-4-core", "datacenter-gpu-manager-4-cuda13",
        "datacenter-gpu-manager-4-proprietary", "datacenter-gpu-manager-4-proprietary-cuda13",
    }  # fmt: skip
    assert packages["datacenter-gpu-manager-4-core"][0].startswith("1:4.")
    toolkit = (
        "nvidia-container-toolkit",
        "nvidia-container-toolkit-base",
        "libnvidia-container-tools",
        "libnvidia-container1",
    )
    assert {packages[name][0] for name in toolkit} == {"0:1.18.2-1"}
    # apt was asked by nobody.
    assert "nvidia" not in host.check_output("apt-mark showhold; ls /etc/apt/preferences.d /etc/apt/sources.list.d")


def test_each_role_has_lines_of_its_own_in_the_list_of_locks(host):
    text = host.file(LOCKS).content_string
    for manifest in ("gpu_driver", "gpu_driver_packages", "cuda", "dcgm", "container_runtime"):
        assert text.count(f"# bedplate {manifest}.sources: begin\n") == 1
    assert f"kernel-core-{KERNEL}.*" in text
    assert host.check_output(f"rpm -qf {LOCKS}").startswith("python3-dnf-plugin-versionlock-")


def test_signatures_of_packages_and_of_their_list_are_checked(host):
    text = host.file("/etc/yum.repos.d/bedplate-nvidia.repo").content_string
    for line in ("gpgcheck=1", "repo_gpgcheck=1", "gpgkey=file:///etc/pki/rpm-gpg/RPM-GPG-KEY-bedplate-nvidia"):
        assert f"\n{line}\n" in text
    # NVIDIA signs this one's list alone, in which is the digest of each package.
    text = host.file("/etc/yum.repos.d/bedplate-container-toolkit.repo").content_string
    assert "\ngpgcheck=0\nrepo_gpgcheck=1\n" in text


def test_what_came_with_a_toolkit_is_locked_as_it_came(host):
    assert installed(host)["libcublas-12-9"] == ["0:12.9.1.4-1"]
    text = host.file(LOCKS).content_string
    assert text.count("# bedplate cuda.follow: begin\n") == 1
    assert {"libcublas-12-9-0:12.9.1.4-1.*", "libcublas-13-0-0:13.0.1.4-1.*"} <= set(text.splitlines())
    # As on a node that was installed before the repository had the newer one: it is to stay there. Verify would tell, but ends here at
    # the driver, whose rpms build no module.
    host.check_output("dnf --assumeyes --disableplugin=versionlock downgrade libcublas-12-9-12.9.0.13-1")
    done = play(SCENARIO / "gpu_dnf.bedplate.yml")
    assert done.returncode == 0, done.stdout + done.stderr
    assert "libcublas-12-9-0:12.9.0.13-1.*" in host.file(LOCKS).content_string.splitlines()
    assert installed(host)["libcublas-12-9"] == ["0:12.9.0.13-1"]


def test_an_upgrade_of_everything_changes_none_of_it(host):
    before = installed(host)
    assert before["libcublas-12-9"] == ["0:12.9.0.13-1"]
    # There is something newer, of the driver and of the kernel, of which dnf knows.
    everything = "dnf --quiet --disableplugin=versionlock --setopt=bedplate-*.module_hotfixes=1 repoquery --qf '%{version}-%{release}\\n' "
    assert f"{UNKNOWN}-1.el9" in host.check_output(everything + "libnvidia-ml")
    assert LATER_KERNEL in host.check_output(everything + "kernel-core")
    done = host.run("dnf --assumeyes --refresh upgrade")
    assert done.rc == 0, done.stdout + done.stderr
    assert installed(host) == before


@pytest.mark.parametrize(
    "name", ["cuda-drivers", "cuda", "cuda-12-9", "cuda-runtime-12-9", "nvidia-open", "datacenter-gpu-manager"]
)
def test_nobody_gets_a_driver_by_a_metapackage(host, name):
    before = installed(host)
    asked = host.run(f"dnf --assumeyes install {name}")
    assert asked.rc != 0
    assert installed(host) == before


def test_verify_finds_all_but_the_module_that_no_script_has_compiled(host):
    done = verify()
    assert done.returncode != 0
    told = re.findall(r"(?:package|module|unit|kernel) \S+.*?: expected .*", done.stdout)
    assert {line.partition(":")[0] for line in told} == {f"module nvidia.ko for kernel {KERNEL}.x86_64"}, done.stdout


@pytest.mark.parametrize(
    ("fault", "told", "mend"),
    [
        (f"cp {LOCKS} /locks && dnf versionlock clear", "package libnvidia-ml: expected held, found not held", f"cp /locks {LOCKS}"),
        ("sed -i s/enabled.*/enabled=0/ /etc/dnf/plugins/versionlock.conf", "package libnvidia-ml: expected held, found not held",
         "sed -i s/enabled.*/enabled=1/ /etc/dnf/plugins/versionlock.conf"),
        ("rpm --erase --nodeps libnvidia-cfg", f"package libnvidia-cfg: expected 3:{OLD}-*, found not installed",
         f"dnf --assumeyes install libnvidia-cfg-3:{OLD}-*"),
    ],
)  # fmt: skip
def test_verify_names_what_is_wrong(host, fault, told, mend):
    host.check_output(fault)
    try:
        done = verify()
        assert done.returncode != 0
        assert told in done.stdout
    finally:
        host.check_output(mend)


def test_locks_that_somebody_took_away_come_again(host):
    before = host.file(LOCKS).content_string
    host.check_output("dnf versionlock clear")
    assert play(SCENARIO / "gpu_dnf.bedplate.yml").returncode == 0
    assert sorted(host.file(LOCKS).content_string.splitlines()) == sorted(before.splitlines())


def test_the_module_of_the_rpm_was_compiled_before_it_was_installed(host):
    proofs = json.loads(host.file("/var/lib/bedplate/dkms.json").content_string)
    assert proofs[0] == {
        "packages": {"kmod-nvidia-open-dkms": f"3:{OLD}-*"}, "name": "nvidia", "module_version": OLD,
        "kernel": f"{KERNEL}.x86_64", "headers": KERNEL,
    }  # fmt: skip


def test_a_driver_that_does_not_compile_leaves_everything_as_it_was(host, other):
    before, locks = installed(host), host.file(LOCKS).content_string
    done = play(other({OLD: BROKEN}))
    assert done.returncode != 0
    assert re.search(rf"nvidia {re.escape(BROKEN)} [a-z ]*{re.escape(KERNEL)}\.x86_64", done.stdout)
    assert "error:" in done.stdout
    assert (installed(host), host.file(LOCKS).content_string) == (before, locks)
    holds_exactly(host, OLD)


@pytest.mark.parametrize(
    ("words", "prove"),
    [
        # Another key signed its list than the one that the site trusts.
        ({"nvidia.asc": "mirror.asc"}, True),
        ({"nvidia.asc": "mirror.asc"}, False),
        # Nobody signed it: the distribution's packages under an address of their own, so that no other source names it.
        ({"http://10.215.19.10/nvidia/rocky-9": "file:///srv/unsigned"}, False),
    ],
)
def test_a_repository_that_is_not_signed_by_its_owner_is_not_believed(host, other, words, prove):
    before = installed(host)
    files = {path: host.file(path).content_string for path in (REPOSITORY, KEY)}
    # rpm trusts a key until then. dnf's own keyring of the repository still has the right one.
    host.check_output("rpm --erase --allmatches gpg-pubkey || true")
    host.check_output("ln -sfn distribution /srv/unsigned")
    try:
        done = play(other({OLD: NEW, **words}), "--extra-vars=" + json.dumps({"gpu_driver_prove": prove}))
        assert done.returncode != 0
        assert re.search("GPG|repomd.xml", done.stdout), done.stdout
        assert "dnf refuses these repositories" in " ".join(done.stdout.split())
        assert installed(host) == before
        # The old repository and its key are there again, so that dnf works for everybody.
        assert {path: host.file(path).content_string for path in files} == files
        assert host.run("dnf --quiet --refresh makecache").rc == 0
    finally:
        assert play(SCENARIO / "gpu_dnf.bedplate.yml").returncode == 0
        host.check_output("rm -f /srv/unsigned")
    holds_exactly(host, OLD)


def test_a_stated_fingerprint_of_another_key_ends_the_run_before_any_node(host, other):
    done = play(other({"  keys: {": f"  fingerprints: {{nvidia: '{'0' * 40}'}}\n  keys: {{"}))
    assert done.returncode != 0
    assert "0000 0000" in " ".join(done.stdout.split())
    assert list(recap(done.stdout)) == ["localhost"]


def test_a_node_without_epel_is_refused_before_anything_is_written(host):
    """The distribution's repository is not enabled, and dkms is not there yet: as on an EL without EPEL."""
    repository = "/etc/yum.repos.d/distribution.repo"
    host.check_output(f"rpm --erase --nodeps dkms && sed --in-place '$ a enabled=0' {repository} && rm {REPOSITORY}")
    try:
        for mode in (["--check"], []):
            done = play(SCENARIO / "gpu_dnf.bedplate.yml", *mode)
            told = " ".join(done.stdout.split())
            assert done.returncode != 0
            assert "dkms: no enabled repository has it" in told
            assert "epel-release-latest-9.noarch.rpm" in told
            assert not host.file(REPOSITORY).exists
    finally:
        host.check_output(f"sed --in-place '/^enabled=0$/ d' {repository}")
        assert play(SCENARIO / "gpu_dnf.bedplate.yml").returncode == 0
    assert "dkms" in installed(host)


def test_a_package_of_another_variant_gives_way(host):
    try:
        host.check_output("rpm --erase --nodeps $(rpm -qa --queryformat '%{NAME} ' 'datacenter-gpu-manager-4-*')")
        host.check_output("dnf --assumeyes --disableplugin=versionlock install datacenter-gpu-manager")
        done = play(SCENARIO / "gpu_dnf.bedplate.yml")
        assert done.returncode == 0, done.stdout
        assert "datacenter-gpu-manager" not in installed(host)
    finally:
        play(SCENARIO / "gpu_dnf.bedplate.yml")


def test_a_whole_set_is_replaced_by_another_and_back_and_the_stream_with_it(host, other):
    for version in (NEW, OLD):
        changed = play(other({OLD: version}))
        assert changed.returncode == 0, changed.stdout + changed.stderr
        holds_exactly(host, version)
        again = play(other({OLD: version}))
        assert recap(again.stdout)[host.check_output("hostname")]["changed"] == 0, again.stdout


def test_a_driver_that_no_table_has_comes_by_the_lock_alone(host, other):
    there = other({OLD: UNKNOWN})
    lock = there.with_name("other.gpu-lock.json")
    refused = play(there)
    assert refused.returncode != 0
    assert "playbooks/gpu_resolve.yml writes one" in " ".join(refused.stdout.split())
    holds_exactly(host, OLD)
    written = set()
    for _ in range(2):
        resolved = play(there, playbook=RESOLVE)
        assert resolved.returncode == 0, resolved.stdout
        written.add(lock.read_bytes())
        lock.unlink()
    (text,) = written
    lock.write_bytes(text)
    done = play(there)
    assert done.returncode == 0, done.stdout
    holds_exactly(host, UNKNOWN, locked=True)
    assert recap(play(there).stdout)[host.check_output("hostname")]["changed"] == 0
    # A cluster file without its lock does not take the node to another set by itself.
    file = SCENARIO / "gpu_dnf.bedplate.yml"
    assert "/etc/bedplate/gpu-lock exists" in play(file).stdout
    holds_exactly(host, UNKNOWN, locked=True)
    assert play(file, "--extra-vars=gpu_resolve=off").returncode == 0
    holds_exactly(host, OLD)


def test_the_nodes_other_modules_must_compile_for_a_kernel_before_it_comes(host, other):
    with second_module(host) as module:
        module.break_it()
        before = installed(host)["kernel-core"]
        refused = play(other({KERNEL: LATER_KERNEL}))
        assert refused.returncode != 0
        told = f"{NAME} {VERSION} does not compile for kernel {LATER_KERNEL}.x86_64"
        assert told in " ".join(refused.stdout.split())
        assert installed(host)["kernel-core"] == before == [f"0:{KERNEL}"]


def test_another_kernel_comes_when_it_is_stated_and_beside_the_old_one(host, other):
    assert installed(host)["kernel-core"] == [f"0:{KERNEL}"]
    changed = play(other({KERNEL: LATER_KERNEL}))
    assert changed.returncode == 0, changed.stdout + changed.stderr
    for name in ("kernel-core", "kernel-devel", "kernel-modules"):
        assert installed(host)[name] == [f"0:{KERNEL}", f"0:{LATER_KERNEL}"]
    back = play(SCENARIO / "gpu_dnf.bedplate.yml")
    assert back.returncode == 0, back.stdout + back.stderr
