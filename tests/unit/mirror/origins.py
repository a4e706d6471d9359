"""Small signed repositories with real packages, and apt on a machine that has only a mirror."""

from __future__ import annotations

import functools
import hashlib
import os
import subprocess
import threading
from collections.abc import Iterable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field
from http.server import SimpleHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any

from ansible_collections.bedplate.cluster.plugins.plugin_utils.mirror.mirror_model import MirrorOrigin
from ansible_collections.bedplate.cluster.plugins.plugin_utils.mirror.signing import Signer

NOWHERE = "http://127.0.0.1:9/"


@dataclass(frozen=True)
class Deb:
    name: str
    version: str
    depends: str = ""
    more: str = ""
    content: str = "x"

    @property
    def file(self) -> str:
        return f"pool/{self.name}_{self.version.split(':')[-1]}_all.deb"


@dataclass
class Archive:
    """A repository as distributions have them. All packages are in the first suite and component, the others are empty."""

    directory: Path
    signer: Signer
    debs: list[Deb] = field(default_factory=list)
    suites: tuple[str, ...] = ("stable",)
    components: tuple[str, ...] = ("main",)

    def add(self, *debs: Deb) -> None:
        self.debs += debs
        for deb in debs:
            self._build(deb)
        self.publish()

    def publish(self) -> None:
        for suite in self.suites:
            dists, sums = self.directory / "dists" / suite, ""
            for component in self.components:
                first = (suite, component) == (self.suites[0], self.components[0])
                index = "\n".join(self._paragraph(deb) for deb in self.debs) if first else ""
                packages = dists / component / "binary-amd64/Packages"
                packages.parent.mkdir(parents=True, exist_ok=True)
                packages.write_text(index)
                digest = hashlib.sha256(index.encode()).hexdigest()
                sums += f" {digest} {len(index.encode())} {component}/binary-amd64/Packages\n"
            text = (
                f"Suite: {suite}\nCodename: {suite}\nDate: Thu, 01 Jan 2026 00:00:00 UTC\nArchitectures: amd64\n"
                f"Components: {' '.join(self.components)}\nSHA256:\n{sums}"
            )
            (dists / "InRelease").write_text(self.signer.sign(text))

    def origin(self, url: str, **more: str) -> MirrorOrigin:
        return MirrorOrigin(more.get("name", "a"), url, ("stable",), ("main",), more.get("key", self.signer.public))

    def _control(self, deb: Deb) -> str:
        depends = f"Depends: {deb.depends}\n" if deb.depends else ""
        return (
            f"Package: {deb.name}\nVersion: {deb.version}\nArchitecture: all\nMaintainer: nobody <n@example.org>\n{depends}{deb.more}"
            "Description: a package\n of a test\n"
        )

    def _build(self, deb: Deb) -> None:
        tree = self.directory / "trees" / f"{deb.name}_{deb.version}"
        (tree / "DEBIAN").mkdir(parents=True, exist_ok=True)
        (tree / "usr/share" / deb.name).mkdir(parents=True, exist_ok=True)
        (tree / "usr/share" / deb.name / "file").write_text(deb.content)
        (tree / "DEBIAN/control").write_text(self._control(deb))
        (self.directory / "pool").mkdir(parents=True, exist_ok=True)
        command = ["dpkg-deb", "--root-owner-group", "-Znone", "--build", str(tree), str(self.directory / deb.file)]
        subprocess.run(command, check=True, capture_output=True)

    def _paragraph(self, deb: Deb) -> str:
        data = (self.directory / deb.file).read_bytes()
        return (
            f"{self._control(deb)}Filename: {deb.file}\nSize: {len(data)}\nMD5sum: {hashlib.md5(data).hexdigest()}\n"
            f"SHA256: {hashlib.sha256(data).hexdigest()}\n"
        )


class _Quiet(SimpleHTTPRequestHandler):
    asked: list[str]

    def log_message(self, format: str, *args: object) -> None:
        self.asked.append(self.path)


@contextmanager
def served(directory: Path) -> Iterator[tuple[str, list[str]]]:
    """Serve a directory; yield its address and the list of what is asked for."""
    asked: list[str] = []
    handler = type("Handler", (_Quiet,), {"asked": asked})
    server = ThreadingHTTPServer(("127.0.0.1", 0), functools.partial(handler, directory=str(directory)))
    thread = threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.01})
    thread.start()
    try:
        yield f"http://127.0.0.1:{server.server_address[1]}", asked
    finally:
        server.shutdown()
        thread.join()
        server.server_close()


def what_apt_reads(parts: Iterable[Mapping[str, Any]]) -> dict[str, str]:
    """Return name -> content of the repositories and pins that parts of roles bring."""
    brought = [entry for part in parts for entry in part["sources"] if entry["path"].startswith("/etc/apt/")]
    return {Path(entry["path"]).name: entry["content"] for entry in brought}


class Node:
    """apt on a machine that has no sources but the mirror, and no route to anything else."""

    def __init__(self, directory: Path, mirror: str, key: str = "", files: dict[str, str] | None = None) -> None:
        """`files` are those of a role (.sources and .pref), otherwise the mirror's address and key are all."""
        self.directory = directory
        for name in ("lists/partial", "archives/partial", "parts", "sources.d", "preferences.d"):
            (directory / name).mkdir(parents=True, exist_ok=True)
        (directory / "status").write_text("")
        (directory / "sources.list").write_text("")
        indented = "".join(f" {line or '.'}\n" for line in key.strip().splitlines())
        plain = {"mirror.sources": f"Types: deb\nURIs: {mirror}\nSuites: ./\nSigned-By:\n{indented}"}
        for name, text in (files or plain).items():
            (directory / ("sources.d" if name.endswith(".sources") else "preferences.d") / name).write_text(text)
        host = mirror.split("/")[2].split(":")[0]
        proxies = f'Acquire::http::Proxy "{NOWHERE}"; Acquire::https::Proxy "{NOWHERE}";'
        (directory / "apt.conf").write_text(
            f'Dir::Etc "{directory}"; Dir::Etc::parts "{directory}/parts"; Dir::Etc::main "none";'
            f'Dir::Etc::sourcelist "{directory}/sources.list"; Dir::Etc::sourceparts "{directory}/sources.d";'
            f'Dir::Etc::preferences "none"; Dir::Etc::preferencesparts "{directory}/preferences.d";'
            f'Dir::State "{directory}"; Dir::State::status "{directory}/status"; Dir::State::lists "{directory}/lists";'
            f'Dir::Cache "{directory}"; Dir::Cache::archives "{directory}/archives";'
            f'APT::Architecture "amd64"; #clear APT::Architectures;\nAPT::Architectures:: "amd64";'
            f'APT::Sandbox::User "root"; Acquire::Languages "none"; Acquire::Retries "0";'
            f'{proxies} Acquire::http::Proxy::{host or "none"} "DIRECT";\n'
        )

    def apt(self, *arguments: str) -> subprocess.CompletedProcess[str]:
        environment = {**os.environ, "APT_CONFIG": str(self.directory / "apt.conf"), "LC_ALL": "C.UTF-8"}
        return subprocess.run(["apt-get", *arguments], capture_output=True, text=True, env=environment, check=False)

    def update(self) -> subprocess.CompletedProcess[str]:
        return self.apt("update", "-q", "-o", "APT::Update::Error-Mode=any")

    def download(self, *packages: str) -> subprocess.CompletedProcess[str]:
        return self.apt("install", "-y", "--no-install-recommends", "--download-only", *packages)

    @property
    def archives(self) -> list[str]:
        return sorted(path.name for path in (self.directory / "archives").glob("*.deb"))
