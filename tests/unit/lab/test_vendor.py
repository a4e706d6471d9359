"""The stand-ins for NVIDIA's packages, asked by the real apt with lists, preferences and records of its own."""

from __future__ import annotations

import json
import re
import shutil
import subprocess
from fnmatch import fnmatchcase
from pathlib import Path

import pytest

from ansible_collections.bedplate.cluster.plugins.plugin_utils.gpu_stack import stack_table
from ansible_collections.bedplate.cluster.plugins.plugin_utils.gpu_stack.apt_repositories import pin_values
from ansible_collections.bedplate.cluster.plugins.plugin_utils.gpu_stack.resolve import Request, Stack, resolve
from ansible_collections.bedplate.cluster.plugins.plugin_utils.parts.part_files import rendered_template
from lab.shell import LabError
from lab.vendor import debs, repository, standins
from lab.vendor import found as packages
from lab.vendor.repository import Repository

# apt, dozens of times: not in make test-fast.
pytestmark = [pytest.mark.playbooks, pytest.mark.tools("apt-get", "gpg", "dpkg-deb")]

OLDER, NEWER, UNKNOWN, BROKEN = "580.65.06", "590.48.01", "999.10.01", "595.71.05"
SYSTEM = "debian-13"
# Of the distribution, which is not asked here.
OTHERS = ("dkms", "g++", "infiniband-diags", "libibumad3", "libc6", "adduser")
INSTALLED = "Package: {}\nStatus: install ok installed\nVersion: 1\nArchitecture: {}\nMaintainer: x\nDescription: x\n\n"


@pytest.fixture(scope="module")
def built(tmp_path_factory: pytest.TempPathFactory) -> Repository:
    return repository.build(
        tmp_path_factory.mktemp("vendor"),
        [SYSTEM],
        drivers=[OLDER, NEWER, BROKEN],
        more_drivers=[UNKNOWN],
        broken=[BROKEN],
    )


class Apt:
    """apt as on a machine that has nothing but one repository."""

    def __init__(self, root: Path, repository: Path, key: Path) -> None:
        self.root = root
        for folder in ("lists/partial", "cache/archives/partial", "etc/preferences.d", "etc/apt.conf.d"):
            (root / folder).mkdir(parents=True)
        (root / "empty").touch()
        self.stanzas = (repository / "Packages").read_text().split("\n\n")
        self.install_records({})
        (root / "etc/sources.list").write_text(f"deb [signed-by={key}] file://{repository} ./\n")

    def install_records(self, packages: dict[str, str], held: tuple[str, ...] = ()) -> None:
        """Say that these versions are installed, with all that the repository says of them, beside the distribution's packages.

        `held` are patterns of those that apt is to leave alone.
        """
        text = "".join(INSTALLED.format(name, debs.architecture()) for name in OTHERS)
        for stanza in self.stanzas:
            name, version = re.findall(r"^(?:Package|Version): (.*)$", stanza, re.MULTILINE)
            if packages.get(name) == version:
                want = "hold" if any(fnmatchcase(name, one) for one in held) else "install"
                status = rf"\1\nStatus: {want} ok installed"
                text += re.sub(r"^(Package: .*)$", status, stanza.strip(), flags=re.MULTILINE) + "\n\n"
        (self.root / "status").write_text(text)

    def __call__(self, *arguments: str) -> subprocess.CompletedProcess[str]:
        options = {
            "Dir::State": self.root,
            "Dir::State::lists": self.root / "lists",
            "Dir::State::status": self.root / "status",
            "Dir::Cache": self.root / "cache",
            "Dir::Etc": self.root / "etc",
            "APT::Sandbox::User": "root",
            "Debug::NoLocking": "true",
        }
        flags = [flag for name, value in options.items() for flag in ("-o", f"{name}={value}")]
        return subprocess.run(
            ["apt-get", *flags, *arguments], capture_output=True, text=True, check=False, timeout=60,
            env={"PATH": "/usr/sbin:/usr/bin:/sbin:/bin", "LC_ALL": "C.UTF-8", "APT_CONFIG": str(self.root / "empty")},
        )  # fmt: skip

    def pin(self, found: Stack) -> None:
        values = {"item": pin_values("x", dict(found.pinned))}
        text = rendered_template("gpu_driver", "node_os/apt.pref.j2", values)
        (self.root / "etc/preferences.d/bedplate.pref").write_text(text)

    def chosen(self, *arguments: str) -> dict[str, str]:
        """Return package -> version of what apt would install."""
        done = self("--simulate", "--yes", *arguments)
        assert done.returncode == 0, done.stdout + done.stderr
        return dict(re.findall(r"^Inst (\S+) (?:\[\S+\] )?\((\S+)", done.stdout, re.MULTILINE))


@pytest.fixture
def apt(tmp_path: Path, built: Repository) -> Apt:
    asked = Apt(tmp_path / "apt", built.part(SYSTEM, "mirror"), built.key("mirror"))
    assert asked("update").returncode == 0
    return asked


def stack(driver: str = OLDER, **wanted: object) -> Stack:
    return resolve(Request(SYSTEM, "nvidia", driver, ("h200",), gpu_count=8, **wanted))  # type: ignore[arg-type]


def everything(driver: str = OLDER) -> Stack:
    return stack(driver, cuda=("12.9", "13.0"), dcgm="4.5.3", toolkit="1.18.2")


def asked(found: Stack) -> list[str]:
    return [one.name if one.version == "*" else f"{one.name}={one.version}" for one in found.packages]


def installed(apt: Apt) -> Stack:
    """Have a set installed, and nothing that keeps it."""
    found = stack()
    apt.pin(found)
    apt.install_records(apt.chosen("install", *asked(found)))
    (apt.root / "etc/preferences.d/bedplate.pref").unlink()
    return found


def coupled(found: Stack) -> set[str]:
    return {name for name, version in found.pinned if version.startswith(found.driver)}


@pytest.mark.parametrize("driver", [OLDER, NEWER])
@pytest.mark.parametrize("module", ["open", "proprietary"])
def test_the_resolvers_set_installs_exactly_and_pins_keep_what_comes_with_it(
    apt: Apt, driver: str, module: str
) -> None:
    found = stack(driver, module=module, cuda=("12.9", "13.0"), dcgm="4.5.3", toolkit="1.18.2")
    loose = apt.chosen("install", *asked(found))
    drifted = {name for name in coupled(found) if loose.get(name, driver).startswith(UNKNOWN)}
    # Else nothing here tempts apt to take another version, and pins are not tested.
    assert drifted
    apt.pin(found)
    kept = apt.chosen("install", *asked(found))
    assert {one.name for one in found.packages} - set(OTHERS) <= set(kept)
    assert {kept[name] for name in coupled(found) & set(kept)} == {f"{driver}-1"}
    assert kept["datacenter-gpu-manager-4-core"] == "1:4.5.3-1"
    assert kept["nvidia-container-toolkit-base"] == "1.18.2-1"


@pytest.mark.parametrize("meta", ["cuda", "cuda-12-9", "cuda-drivers", "nvidia-open"])
def test_what_drags_in_a_driver_takes_another_one_and_cannot_when_the_set_is_pinned(apt: Apt, meta: str) -> None:
    found = installed(apt)
    assert UNKNOWN in " ".join(apt.chosen("install", meta).values())
    apt.pin(found)
    refused = apt("--simulate", "--yes", "install", meta)
    assert refused.returncode != 0
    assert "unmet dependencies" in refused.stdout


def test_an_upgrade_of_everything_takes_the_newest_unless_the_set_is_pinned(apt: Apt) -> None:
    found = installed(apt)
    assert apt.chosen("dist-upgrade")["libcuda1"] == f"{UNKNOWN}-1"
    apt.pin(found)
    assert apt.chosen("dist-upgrade") == {}
    apt.pin(stack(NEWER))
    assert set(apt.chosen("dist-upgrade").values()) == {f"{NEWER}-1"}


def test_what_came_with_a_toolkit_moves_unless_all_that_matches_is_held(apt: Apt) -> None:
    found = everything()
    apt.pin(found)
    older = {**apt.chosen("install", *asked(found)), "libcublas-12-9": "12.9.0.13-1"}
    apt.install_records(older)
    # The toolkit itself is pinned, and its components have versions of their own.
    assert apt.chosen("dist-upgrade") == {"libcublas-12-9": "12.9.1.4-1"}
    apt.install_records(older, held=found.components)
    assert apt.chosen("dist-upgrade") == {}


def test_the_two_repositories_are_signed_by_two_keys_and_hold_their_own(tmp_path: Path, built: Repository) -> None:
    toolkit = Apt(tmp_path / "toolkit", built.part(SYSTEM, "toolkit"), built.key("toolkit"))
    assert toolkit("update").returncode == 0
    assert set(toolkit.chosen("install", "nvidia-container-toolkit")) == {
        one.name for one in everything().packages if one.part == "toolkit"
    }
    assert toolkit("--simulate", "install", "libcuda1").returncode != 0
    other = Apt(tmp_path / "other", built.part(SYSTEM, "toolkit"), built.key("nvidia"))
    refused = other("update")
    assert refused.returncode != 0
    assert "NO_PUBKEY" in refused.stderr or "not signed" in refused.stderr


@pytest.mark.parametrize("tamper", ["InRelease", "Packages", "unsigned", "package"])
def test_what_somebody_changed_is_refused(tmp_path: Path, built: Repository, tamper: str) -> None:
    copy = tmp_path / "copy"
    shutil.copytree(built.part(SYSTEM, "toolkit"), copy)
    if tamper == "unsigned":
        text = (copy / "InRelease").read_text()
        (copy / "InRelease").unlink()
        (copy / "Release").write_text(text.split("\n\n", 1)[1].partition("-----BEGIN PGP SIGNATURE")[0])
    elif tamper == "package":
        package = next(copy.glob("nvidia-container-toolkit-base_1.18*.deb"))
        package.write_bytes(package.read_bytes()[:-1] + b"x")
    else:
        path = copy / tamper
        path.write_bytes(path.read_bytes().replace(b"tests", b"trust"))
        (copy / "Packages.gz").unlink()
    client = Apt(tmp_path / "apt", copy, built.key("toolkit"))
    done = client("update")
    if tamper == "package":
        assert done.returncode == 0
        names = ("nvidia-container-toolkit", "nvidia-container-toolkit-base")
        done = client("--yes", "--download-only", "install", *(f"{name}=1.18.2-1" for name in names))
    assert done.returncode != 0, done.stdout + done.stderr


def test_dcgm_of_before_gives_way(apt: Apt) -> None:
    apt.install_records({"datacenter-gpu-manager": "1:3.3.9"})
    done = apt("--simulate", "--yes", "install", "datacenter-gpu-manager-4-core")
    assert "Remv datacenter-gpu-manager" in done.stdout


def test_the_same_is_built_every_time_with_the_same_keys(tmp_path: Path) -> None:
    said = []
    for _build in range(2):
        made = repository.build(tmp_path, ["debian-12"], drivers=[OLDER])
        said.append((made.part("debian-12", "mirror") / "Packages").read_text() + made.key("mirror").read_text())
    assert said[0] == said[1]
    assert (tmp_path / "private/mirror.asc").stat().st_mode & 0o777 == 0o600


def test_the_repositories_are_called_as_in_the_table_and_lie_where_a_mirror_is_looked_for(built: Repository) -> None:
    rows = {repository.of_table(row): row.origin for row in stack_table.default().repositories}
    for name in standins.REPOSITORIES:
        assert f"Origin: {rows[name]}\n" in (built.public / name / SYSTEM / "InRelease").read_text()
    assert (built.public / "mirror" / SYSTEM / "InRelease").exists()


def test_every_stand_in_says_what_it_is(built: Repository) -> None:
    stanzas = (built.part(SYSTEM, "mirror") / "Packages").read_text().split("\n\n")
    assert len(stanzas) > 100
    assert all("stand-in for tests" in one for one in stanzas)
    units = [one for path in (standins.HERE / "trees").rglob("*.service") for one in [path.read_text()]]
    assert len(units) > 4
    assert all("stand-in" in one for one in units)


def test_only_the_driver_that_should_not_compile_does_not(built: Repository, tmp_path: Path) -> None:
    for version, call in ((OLDER, "stand_in_probe(0, 0)"), (BROKEN, "stand_in_probe(0)")):
        package = built.part(SYSTEM, "nvidia") / f"nvidia-kernel-open-dkms_{version}-1_{debs.architecture()}.deb"
        subprocess.run(["dpkg-deb", "--extract", str(package), str(tmp_path)], check=True, timeout=20)
        source = tmp_path / f"usr/src/nvidia-{version}"
        assert call in (source / "stand_in.c").read_text()
        assert f'MODULE_VERSION("{version}");\nMODULE_LICENSE("Dual MIT/GPL")' in (source / "stand_in.c").read_text()
        assert f'PACKAGE_VERSION="{version}"' in (source / "dkms.conf").read_text()


def test_a_driver_that_is_not_known_is_refused_with_those_that_are(tmp_path: Path) -> None:
    with pytest.raises(LabError, match=rf"{UNKNOWN} of nvidia .*{SYSTEM}; known: .*{NEWER}"):
        repository.build(tmp_path, [SYSTEM], drivers=[UNKNOWN])


def test_no_two_packages_that_go_together_bring_the_same_file() -> None:
    for system in ("debian-12", "debian-13", "ubuntu-24.04"):
        known = stack_table.default()
        made = standins.stand_ins(packages.packages(system, [], known), known.dcgm.forbidden)
        for version in {one.version for one in made}:
            owners: dict[str, standins.StandIn] = {}
            for one in (one for one in made if one.version == version):
                for path in one.files:
                    other = owners.setdefault(path, one)
                    assert other is one or other.name in one.conflicts, f"{path}: {other.name} and {one.name}"


def test_the_tables_names_are_the_rows_of_the_stand_ins() -> None:
    """A row of packages.json that no package of the table fits would be a name that changed there."""
    names: set[str] = set()
    for system in ("debian-12", "debian-13", "ubuntu-24.04", "rocky-9"):
        names |= {one.name for one in packages.packages(system, [], stack_table.default())}
    rows = json.loads((standins.HERE / "packages.json").read_text())["packages"]
    idle = [row["names"] for row in rows if not any(fnmatchcase(name, one) for one in row["names"] for name in names)]
    assert idle == []
