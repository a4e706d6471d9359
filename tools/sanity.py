# SPDX-License-Identifier: GPL-3.0-or-later
"""Run `ansible-test sanity --local` on the collection as it is installed.

    python -m tools.sanity                      all tests but pylint; the ones by Python with the oldest Python of nodes
    python -m tools.sanity rest                 pylint; the ones by Python with the newest Python that is here
    python -m tools.sanity --test yamllint      arguments of ansible-test

The collection is built, unpacked into a temporary folder, and tested there. ansible-test makes an environment for each test below
`.cache/sanity`, with pip from the package registry. Tests by Python take a minute for each. tests/unit/test_plugin_files.py imports every
file with the Pythons of both ends of ansible-core, so the newest one runs in a full target.
"""

from __future__ import annotations

import ast
import os
import shutil
import subprocess
import sys
import tarfile
import tempfile
from collections.abc import Sequence
from pathlib import Path

ROOT = Path(__file__).parents[1]
HOME = ROOT / ".cache/sanity"
OLDEST, NEWEST = ("3.9",), ("3.14", "3.13", "3.12")
BY_PYTHON = ("compile", "import")
SLOW = ("pylint",)
REST = "rest"
# The environments that ansible-test makes have no pip. It fetches a script that installs one from a web server of Ansible, unless the
# script is in its cache: this one installs pip from the package registry.
_PIP = """\
import ensurepip, os, subprocess, sys
ensurepip.bootstrap(default_pip=True)
del os.environ["PIP_CONFIG_FILE"]  # with which ensurepip hides pip's settings
requested = [one for one in sys.argv[1:] if one not in ("--no-setuptools", "--no-wheel")]
subprocess.run([sys.executable, "-m", "pip", "install", *requested], check=True)
"""
_PIP_SCRIPTS = ("get_pip_20_3_4.py", "get_pip_24_2.py", "get_pip_25_1.py")


def main(arguments: Sequence[str]) -> int:
    """Build, unpack and test the collection; return the exit status of ansible-test."""
    cache = HOME / ".ansible/test/cache"
    cache.mkdir(parents=True, exist_ok=True)
    for name in _PIP_SCRIPTS:
        (cache / name).write_text(_PIP)
    write_pip_settings(HOME / ".config/pip/pip.conf")
    with tempfile.TemporaryDirectory(prefix="bedplate-sanity-") as name:
        target = installed(Path(name))
        pythons = Path(name) / "pythons"
        oldest, newest = link_pythons(pythons)
        environment = {key: value for key, value in os.environ.items() if not key.startswith("ANSIBLE_")}
        environment |= {
            "HOME": str(HOME),
            # Not pyenv's shims: one of a Python that pyenv has not chosen fails.
            "PATH": os.pathsep.join(
                [str(Path(sys.executable).parent), str(pythons)]
                + [one for one in environment["PATH"].split(os.pathsep) if Path(one).name != "shims"]
            ),
            "LC_ALL": "C.UTF-8",
        }
        command = [str(Path(sys.executable).with_name("ansible-test")), "sanity", "--local"]
        done = [
            subprocess.run([*command, *one], cwd=target, env=environment, check=False).returncode
            for one in runs(arguments, oldest, newest)
        ]
        return max(done, default=1)


def runs(arguments: Sequence[str], oldest: str, newest: str) -> list[list[str]]:
    """Return the arguments of each run of ansible-test: the given ones, `make sanity`, or the rest; "" for a Python that is missing."""
    rest = list(arguments) == [REST]
    if arguments and not rest:
        return [list(arguments)]
    others = options("--test", SLOW) if rest else options("--skip-test", BY_PYTHON + SLOW)
    version = newest if rest else oldest
    by_python = [["--python", version, *options("--test", BY_PYTHON)]] if version else []
    return [others, *by_python]


def options(name: str, values: Sequence[str]) -> list[str]:
    """Return an option of the command line once for each value."""
    return [word for value in values for word in (name, value)]


def installed(folder: Path) -> Path:
    """Build the collection, unpack it with its settings for ansible-test, and return where it is."""
    command = [
        str(Path(sys.executable).with_name("ansible-galaxy")),
        "collection",
        "build",
        "--output-path",
        str(folder),
    ]
    subprocess.run(command, cwd=ROOT, check=True, stdout=subprocess.DEVNULL)
    (archive,) = folder.glob("bedplate-cluster-*.tar.gz")
    target = folder / "ansible_collections/bedplate/cluster"
    with tarfile.open(archive) as packed:
        # Python 3.11 before 3.11.4 has no filters.
        packed.extraction_filter = getattr(tarfile, "data_filter", lambda member, _path: member)
        packed.extractall(target)
    (target / "tests").mkdir()
    shutil.copy(ROOT / "tests/config.yml", target / "tests")
    return target


def write_pip_settings(path: Path) -> None:
    """Write the settings of pip, including settings of the environment: ansible-test hides the environment from pip."""
    listed = subprocess.run([sys.executable, "-m", "pip", "config", "list"], capture_output=True, text=True, check=True)
    settings = {}
    for line in listed.stdout.splitlines():
        name, _, value = line.partition("=")
        settings[name.rpartition(".")[2]] = ast.literal_eval(value)
    path.parent.mkdir(parents=True, exist_ok=True)
    lines = [f"{name} = {value}".replace("\n", "\n  ") for name, value in settings.items()]
    path.write_text("\n".join(["[global]", *lines, ""]))


def link_pythons(folder: Path) -> list[str]:
    """Link the oldest and the newest Python, which may be pyenv's; return their versions, "" without one. In CI that is an error."""
    folder.mkdir()
    linked = []
    for versions in (OLDEST, NEWEST):
        found = next(filter(None, map(python, versions)), None)
        if found:
            version, place = found
            (folder / f"python{version}").symlink_to(place)
            linked.append(version)
        else:
            text = f"NOT TESTED with Python {' or '.join(versions)}: not found on PATH or in ~/.pyenv/versions."
            if os.environ.get("CI") == "true":
                sys.exit(text)
            print(text, file=sys.stderr)
            linked.append("")
    return linked


def python(version: str) -> tuple[str, str] | None:
    """Return a version with the path of a Python of it that runs, None without one."""
    places = [
        shutil.which(f"python{version}"),
        *map(str, Path.home().glob(f".pyenv/versions/{version}.*/bin/python{version}")),
    ]
    for place in places:
        if place and not subprocess.run([place, "--version"], capture_output=True, check=False).returncode:
            return version, place
    return None


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
