"""Debian's packages of Slurm under SchedMD's names and relations: what lab/vendor/repack.py makes of small packages."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

import pytest
import yaml

from ansible_collections.bedplate.cluster.plugins.plugin_utils.slurm.tables.packagings import PARTS, packaging
from lab.paths import ROOT
from lab.vendor import debs, repack
from lab.vendor.standins import Content, StandIn

SLURM, SCHEDMD = (ROOT / f"molecule/{name}/{name}.bedplate.yml" for name in ("slurm", "slurm_schedmd"))
OTHERS = {"munge", "mariadb-server", "python3-dnf-plugin-versionlock"}
UNIT = "[Unit]\nDescription=a\n\n[Service]\nEnvironment=OLD=1\nExecStart=/usr/sbin/{0} -x\n\n[Install]\nWantedBy=multi-user.target\n"
SIGNED = pytest.mark.tools("gpg", "dpkg-deb")


@pytest.fixture(scope="module")
def debian(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Write a small package for each of Debian's that the table names, with the files that differ in SchedMD's."""
    folder = tmp_path_factory.mktemp("debian")
    for name in {*repack.sources("apt"), *repack.sources("dnf")}:
        files = {f"usr/share/doc/{name}/copyright": Content("x\n"), f"usr/lib/{name}.so": Content("binary\n")}
        if (name.startswith("slurm") and name.endswith(("d", "ctld"))) or name == "sackd":
            program = name if name in ("slurmdbd", "slurmrestd", "sackd") else f"{name}-wlm"
            files[f"usr/sbin/{program}"] = Content("binary\n", 0o755)
            files[f"usr/lib/systemd/system/{name}.service"] = Content(UNIT.format(name))
            files[f"etc/default/{name}"] = Content("# options\n")
            files[f"etc/init.d/{name}"] = Content("#!/bin/sh\n", 0o755)
        if name == "slurm-wlm-basic-plugins":
            files["usr/lib/sysusers.d/slurm.conf"] = Content("u! slurm 64030\n")
            files["etc/slurm/plugstack.conf"] = Content("include x\n")
        if name == "libpam-slurm-adopt":
            files["usr/lib/x86_64-linux-gnu/security/pam_slurm_adopt.so"] = Content("binary\n")
        needs = (
            "libc6 (>= 2.38)",
            "libslurm42t64 (>= 22.05.7)",
            "slurm-wlm-basic-plugins (= 24.11.5-4)",
            "ucf",
            "munge",
        )
        made = StandIn(name, "24.11.5-4", "", needs, files=files, scripts={"postinst": "#!/bin/sh\nadduser slurm\n"})
        (folder / debs.file_name(made)).write_bytes(debs.deb(made))
    return folder


@pytest.fixture(scope="module")
def built(debian: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    out = tmp_path_factory.mktemp("site") / "slurm"
    subprocess.run([sys.executable, repack.__file__, "apt", str(debian), str(out)], check=True, timeout=120)
    return out


def field(file: Path, name: str) -> list[str]:
    done = subprocess.run(["dpkg-deb", "--field", str(file), name], capture_output=True, text=True, check=True)
    return done.stdout.strip().split(", ")


def contents(file: Path) -> set[str]:
    done = subprocess.run(["dpkg-deb", "--contents", str(file)], capture_output=True, text=True, check=True)
    return {line.split()[5].removeprefix("./") for line in done.stdout.splitlines()}


def of(built: Path, name: str) -> Path:
    (file,) = built.glob(f"{name}_24.11.5-1_*.deb")
    return file


@SIGNED
def test_relations_are_schedmds(built: Path) -> None:
    slurmd = of(built, "slurm-smd-slurmd")
    assert field(slurmd, "Depends") == ["libc6 (>= 2.38)", "slurm-smd (= 24.11.5-1)", "munge"]
    assert field(slurmd, "Conflicts") == ["slurmd"]
    assert {"slurm-wlm-basic-plugins", "slurm-wlm-mysql-plugin"} <= set(field(of(built, "slurm-smd"), "Conflicts"))


@SIGNED
def test_packages_have_no_scripts_and_make_no_user(built: Path) -> None:
    for file in built.glob("*.deb"):
        names = subprocess.run(["dpkg-deb", "--ctrl-tarfile", str(file)], capture_output=True, check=True).stdout
        assert not any(one in names for one in (b"postinst", b"preinst", b"prerm", b"postrm", b"triggers")), file
        assert not [path for path in contents(file) if path.startswith(("usr/lib/sysusers.d", "etc/init.d"))], file


@SIGNED
def test_files_are_where_schedmds_packages_have_them(built: Path) -> None:
    assert {
        "usr/sbin/slurmctld",
        "var/lib/slurm/slurmctld/",
        "var/log/slurm/",
        "etc/slurm/",
        "etc/default/slurmctld",
    } <= contents(of(built, "slurm-smd-slurmctld"))
    assert "var/lib/slurm/slurmd/" not in contents(of(built, "slurm-smd-slurmd"))
    assert "etc/slurm/plugstack.conf" not in contents(of(built, "slurm-smd"))
    assert "usr/lib/security/pam_slurm_adopt.so" in contents(of(built, "slurm-smd-libpam-slurm-adopt"))


@SIGNED
def test_the_unit_of_slurmrestd_opens_a_port_as_schedmds(built: Path, tmp_path: Path) -> None:
    subprocess.run(["dpkg-deb", "--extract", str(of(built, "slurm-smd-slurmrestd")), str(tmp_path)], check=True)
    text = (tmp_path / "usr/lib/systemd/system/slurmrestd.service").read_text()
    assert "\nEnvironment=SLURMRESTD_LISTEN=:6820\n" in text
    assert "\nExecStart=/usr/sbin/slurmrestd $SLURMRESTD_OPTIONS\n" in text
    assert "OLD" not in text


@SIGNED
def test_the_index_is_signed_by_the_key_beside_the_repository(built: Path, tmp_path: Path) -> None:
    key = tmp_path / "key.gpg"
    subprocess.run(["gpg", "--dearmor", "--output", str(key), f"{built}.asc"], check=True)
    done = subprocess.run(["gpgv", "--keyring", str(key), str(built / "InRelease")], capture_output=True, check=False)
    assert done.returncode == 0, done.stderr
    index = (built / "Packages").read_text()
    assert all(f"Filename: ./{file.name}\n" in index for file in built.glob("*.deb"))


@pytest.mark.parametrize(("manager", "marks"), [("apt", "slurm-smd"), ("dnf", "slurm")])
def test_every_package_of_the_roles_table_is_built(manager: str, marks: str) -> None:
    built = {row["name"] for row in repack.TABLE[manager]}
    requested = {name for part in (*PARTS, "headers") for name in packaging("schedmd", manager).packages[part]}
    assert requested - OTHERS <= built
    assert all(name.startswith(marks) for name in built)


def test_the_two_clusters_differ_by_the_packages_alone() -> None:
    plain, schedmd = (yaml.safe_load(path.read_text()) for path in (SLURM, SCHEDMD))
    assert set(schedmd.pop("compose")) == {"slurm_repository"}
    assert schedmd["slurm"].pop("packages") == "schedmd"
    assert json.loads(json.dumps(schedmd).replace("10.215.24.", "10.215.1.")) == plain
