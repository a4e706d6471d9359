"""What `package_access` of the cluster file writes, read by the real apt: a proxy, passwords, an authority of the site."""

from __future__ import annotations

import base64
import hashlib
import http.client
import os
import ssl
import subprocess
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

import pytest

from ansible_collections.bedplate.cluster.plugins.plugin_utils.cluster import ClusterFileError, load
from ansible_collections.bedplate.cluster.plugins.plugin_utils.cluster.package_access import certificate_mistakes
from ansible_collections.bedplate.cluster.plugins.plugin_utils.common.file_entries import text_with_secrets
from tests.kit.decided import decided

BASE = (Path(__file__).parents[1] / "cluster" / "base.yml").read_text()
PASSWORD = "n0t-in-git"
USER = base64.b64encode(f"cluster:{PASSWORD}".encode()).decode()


def written(folder: Path, section: str) -> dict[str, dict[str, Any]]:
    """Return what the role writes below /etc/apt, by path."""
    file = folder / "site.bedplate.yml"
    file.write_text(f"{BASE}package_access:\n{section}")
    entries = decided("node_os", file, "ctl1")["files"]
    return {entry["path"]: entry for entry in entries if entry["path"].startswith("/etc/apt/")}


def test_without_the_section_nothing_is_written(tmp_path: Path) -> None:
    file = tmp_path / "site.bedplate.yml"
    file.write_text(BASE)
    assert [entry["path"] for entry in decided("node_os", file, "ctl1")["files"]] == ["/etc/hosts"]


def test_a_password_is_a_mark_until_it_is_written(tmp_path: Path) -> None:
    entry = written(
        tmp_path, "  logins: [{url: 'https://m.example.org/gpu/', user: cluster, password: mirror_password}]\n"
    )["/etc/apt/auth.conf.d/bedplate-access.conf"]
    assert entry["mode"] == "0600"
    assert entry["secrets"] == {"@mirror_password@": "mirror_password"}
    text = text_with_secrets(entry, {"mirror_password": PASSWORD}.__getitem__)
    assert "machine https://m.example.org/gpu\nlogin cluster\npassword n0t-in-git\n" in text


@pytest.mark.parametrize(
    ("section", "where"),
    [
        ("  proxy: http://me:s3cret@proxy:3128\n", "package_access.proxy"),
        ("  logins: [{url: 'http://me:s3cret@m/', user: a, password: b}]\n", "package_access.logins[0].url"),
        # Each has a password, however the address is misspelt.
        ("  proxy: me:s3cret@proxy:3128\n", "package_access.proxy"),
        ("  proxy: http:/me:s3cret@proxy:3128\n", "package_access.proxy"),
        ("  proxy: http://me:s3cret/x@proxy:3128\n", "package_access.proxy"),
        ("  proxy: proxy:3128\n", "package_access.proxy"),
        ("  proxy: ftp://proxy:3128\n", "package_access.proxy"),
        ("  proxy: http://proxy:0\n", "package_access.proxy"),
        ("  no_proxy: [mirror]\n", "package_access.no_proxy"),
        ("  proxy: http://p:1\n  no_proxy: ['*.example.org']\n", "package_access.no_proxy[0]"),
        ("  logins: [{url: 'http://m', user: a, password: 'S3cret!'}]\n", "package_access.logins[0].password"),
        (
            "  logins:\n  - {url: 'http://m', user: a, password: b}\n  - {url: 'http://m/', user: c, password: d}\n",
            "package_access.logins[1].url",
        ),
    ],
)  # fmt: skip
def test_what_cannot_be_is_refused_at_its_place(tmp_path: Path, section: str, where: str) -> None:
    with pytest.raises(ClusterFileError) as caught:
        written(tmp_path, section)
    assert f": {where}: " in str(caught.value)
    assert "s3cret" not in str(caught.value)


@pytest.mark.parametrize("url", ["https://m.example.org:8443/pool/@site", "http://[fd00::1]:80/@a", "http://m/a@b"])
def test_an_at_sign_in_a_path_is_no_password(tmp_path: Path, url: str) -> None:
    found = written(tmp_path, f"  logins: [{{url: '{url}', user: a, password: b}}]\n")
    assert f"machine {url}\n" in found["/etc/apt/auth.conf.d/bedplate-access.conf"]["content"]


@pytest.mark.parametrize(
    "key",
    [
        "mirror: {url: 'http://me:s3cret@m/gpu', key: k.asc}",
        "urls: {debian: 'http://me:s3cret@m'}",
        "urls: {debian: 'http://me:s3cret/x@m'}",
    ],
)
def test_a_password_in_the_address_of_a_mirror_is_refused(tmp_path: Path, key: str) -> None:
    file = tmp_path / "site.bedplate.yml"
    file.write_text(f'{BASE}gpu_stack:\n  os: debian-13\n  source: debian\n  driver: "550"\n  {key}\n')
    with pytest.raises(
        ClusterFileError, match=r"gpu_stack\.(mirror\.url|urls\.debian): .*package_access.logins"
    ) as caught:
        load(str(file))
    assert "s3cret" not in str(caught.value)


def test_dnf_is_refused(tmp_path: Path) -> None:
    file = tmp_path / "site.bedplate.yml"
    stack = 'gpu_stack:\n  os: rocky-9\n  source: nvidia\n  driver: "580"\n  keys: {nvidia: k.asc}\n'
    file.write_text(f"{BASE}{stack}package_access: {{proxy: 'http://p:1'}}\n")
    with pytest.raises(ClusterFileError, match=r": package_access: .*dnf"):
        load(str(file))


@pytest.mark.parametrize("text", [None, "nothing", "-----BEGIN CERTIFICATE-----\n-----BEGIN PRIVATE KEY-----"])
def test_a_file_without_certificates_alone_is_named(tmp_path: Path, text: str | None) -> None:
    if text is not None:
        (tmp_path / "ca.pem").write_text(text)
    file = tmp_path / "site.bedplate.yml"
    file.write_text(f"{BASE}package_access: {{ca: ca.pem}}\n")
    (mistake,) = certificate_mistakes(load(str(file)).package_access)
    assert mistake.startswith(f"package_access.ca: {tmp_path}/ca.pem: ")


class _Apt:
    """The real apt with sources of its own and the files of the role."""

    def __init__(self, folder: Path, url: str, files: dict[str, dict[str, Any]]) -> None:
        for name in ("lists/partial", "archives/partial", "conf.d", "auth.conf.d"):
            (folder / name).mkdir(parents=True)
        (folder / "status").touch()
        (folder / "sources.list").write_text(f"deb [trusted=yes] {url} ./\n")
        for path, entry in files.items():
            text = text_with_secrets(entry, {"mirror_password": PASSWORD}.__getitem__)
            target = (
                folder
                / ("auth.conf.d" if "auth.conf.d" in path else "conf.d" if "apt.conf.d" in path else "")
                / Path(path).name
            )
            target.write_text(text.replace("/etc/apt/bedplate-access.pem", f"{folder}/bedplate-access.pem"))
        (folder / "apt.conf").write_text(
            f'Dir::Etc "{folder}"; Dir::Etc::parts "{folder}/conf.d"; Dir::Etc::main "none"; Dir::Etc::sourceparts "none";'
            f'Dir::Etc::netrcparts "{folder}/auth.conf.d"; Dir::Etc::preferencesparts "none"; Dir::State "{folder}";'
            f'Dir::State::status "{folder}/status"; Dir::State::lists "{folder}/lists"; Dir::Cache "{folder}";'
            'APT::Sandbox::User "root"; Acquire::Languages "none"; Acquire::Retries "0";\n'
        )
        self.folder = folder

    def update(self) -> subprocess.CompletedProcess[str]:
        environment = {key: value for key, value in os.environ.items() if not key.lower().endswith("_proxy")}
        environment |= {"APT_CONFIG": str(self.folder / "apt.conf"), "LC_ALL": "C.UTF-8"}
        command = ["apt-get", "update", "-q", "-o", "APT::Update::Error-Mode=any"]
        return subprocess.run(command, capture_output=True, text=True, env=environment, check=False)


@contextmanager
def server(answer: Callable[[BaseHTTPRequestHandler], None], context: ssl.SSLContext | None = None) -> Iterator[int]:
    class Handler(BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            answer(self)

        def log_message(self, *_: object) -> None:
            pass

    made = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    if context:
        made.socket = context.wrap_socket(made.socket, server_side=True)
    thread = threading.Thread(target=made.serve_forever, kwargs={"poll_interval": 0.01})
    thread.start()
    try:
        yield made.server_address[1]
    finally:
        made.shutdown()
        thread.join()
        made.server_close()


def _send(handler: BaseHTTPRequestHandler, code: int, data: bytes = b"", **headers: str) -> None:
    handler.send_response(code)
    for name, value in {"Content-Length": str(len(data)), **headers}.items():
        handler.send_header(name.replace("_", "-"), value)
    handler.end_headers()
    handler.wfile.write(data)


def repository(handler: BaseHTTPRequestHandler) -> None:
    """Answer as an empty flat repository that wants a password."""
    if handler.headers["Authorization"] != f"Basic {USER}":
        _send(handler, 401, WWW_Authenticate='Basic realm="packages"')
        return
    release = f"Date: Thu, 01 Jan 2026 00:00:00 UTC\nSHA256:\n {hashlib.sha256(b'').hexdigest()} 0 Packages\n".encode()
    found = {"Release": release, "Packages": b""}.get(handler.path.rpartition("/")[2])
    _send(handler, 404 if found is None else 200, found or b"")


def proxy(asked: list[str]) -> Callable[[BaseHTTPRequestHandler], None]:
    """Answer as a proxy that wants a password."""

    def answer(handler: BaseHTTPRequestHandler) -> None:
        if handler.headers["Proxy-Authorization"] != f"Basic {USER}":
            _send(handler, 407, Proxy_Authenticate='Basic realm="proxy"')
            return
        asked.append(handler.path)
        url = urlsplit(handler.path)
        other = http.client.HTTPConnection(str(url.hostname), url.port)
        other.request("GET", url.path, headers={"Authorization": handler.headers["Authorization"] or ""})
        reply = other.getresponse()
        _send(handler, reply.status, reply.read())
        other.close()

    return answer


@pytest.mark.tools("apt-get")
def test_apt_passes_server_and_proxy_with_their_passwords(tmp_path: Path) -> None:
    asked: list[str] = []
    with server(repository) as port, server(proxy(asked)) as gate:
        logins = [
            f"{{url: 'http://127.0.0.1:{one}', user: cluster, password: mirror_password}}" for one in (port, gate)
        ]
        section = f"  proxy: http://127.0.0.1:{gate}\n  logins: [{', '.join(logins)}]\n"
        files = written(tmp_path, section)
        url = f"http://127.0.0.1:{port}/gpu"
        done = _Apt(tmp_path / "apt", url, files).update()
        assert done.returncode == 0, done.stdout + done.stderr
        assert f"{url}/./Release" in asked
        assert PASSWORD not in done.stdout + done.stderr
        del files["/etc/apt/auth.conf.d/bedplate-access.conf"]
        assert _Apt(tmp_path / "no password", url, files).update().returncode != 0


@pytest.mark.tools("apt-get")
def test_a_host_of_no_proxy_is_reached_directly(tmp_path: Path) -> None:
    with server(repository) as port:
        section = (
            f"  proxy: http://127.0.0.1:9\n  no_proxy: [localhost]\n"
            f"  logins: [{{url: 'http://localhost:{port}/gpu', user: cluster, password: mirror_password}}]\n"
        )
        done = _Apt(tmp_path / "apt", f"http://localhost:{port}/gpu", written(tmp_path, section)).update()
    assert done.returncode == 0, done.stdout + done.stderr


@pytest.mark.tools("apt-get", "openssl")
def test_an_authority_of_the_site_is_trusted(tmp_path: Path) -> None:
    key, ca = tmp_path / "key.pem", tmp_path / "ca.pem"
    subject = ["-subj", "/CN=localhost", "-addext", "subjectAltName=DNS:localhost"]
    command = ["openssl", "req", "-x509", "-newkey", "rsa:2048", "-nodes", "-days", "2", *subject]
    subprocess.run([*command, "-keyout", key, "-out", ca], check=True, capture_output=True)
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.load_cert_chain(ca, key)
    with server(repository, context) as port:
        url = f"https://localhost:{port}/gpu"
        section = f"  ca: ca.pem\n  logins: [{{url: '{url}', user: cluster, password: mirror_password}}]\n"
        files = written(tmp_path, section)
        done = _Apt(tmp_path / "apt", url, files).update()
        assert done.returncode == 0, done.stdout + done.stderr
        del files["/etc/apt/apt.conf.d/80bedplate-access"]
        assert _Apt(tmp_path / "other", url, files).update().returncode != 0


def test_certificates_end_with_a_line_end(tmp_path: Path) -> None:
    (tmp_path / "ca.pem").write_text("-----BEGIN CERTIFICATE-----\n-----END CERTIFICATE-----")
    found = written(tmp_path, "  ca: ca.pem\n")
    assert found["/etc/apt/bedplate-access.pem"]["content"].endswith("-----END CERTIFICATE-----\n")


@pytest.mark.parametrize("proxy", ["http://:3128", "http://proxy:port", "http://[fd00::1", "http://proxy:70000"])
def test_an_address_without_a_server_or_with_an_odd_port_is_refused(tmp_path: Path, proxy: str) -> None:
    with pytest.raises(ClusterFileError, match=r": package_access\.proxy: "):
        written(tmp_path, f"  proxy: '{proxy}'\n")


def test_an_authority_of_the_site_is_named_where_apt_uses_it(tmp_path: Path) -> None:
    (tmp_path / "ca.pem").write_text("-----BEGIN CERTIFICATE-----\nx\n-----END CERTIFICATE-----\n")
    found = written(tmp_path, "  ca: ca.pem\n")
    assert "/etc/apt/bedplate-access.pem" in found["/etc/apt/apt.conf.d/80bedplate-access"]["content"]
    assert (
        "bedplate-access.pem"
        not in written(tmp_path, "  proxy: http://p:1\n")["/etc/apt/apt.conf.d/80bedplate-access"]["content"]
    )
