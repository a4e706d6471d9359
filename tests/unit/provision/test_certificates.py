"""The certificates of a provision host, by the real openssl: what makes them new, and what a client accepts."""

from __future__ import annotations

import shutil
import socket
import ssl
import subprocess
import threading
from pathlib import Path

import pytest

from ansible_collections.bedplate.cluster.plugins.module_utils.common.command import Outcome, run_quick
from ansible_collections.bedplate.cluster.plugins.module_utils.provision import certificates
from ansible_collections.bedplate.cluster.plugins.module_utils.provision.certificates import (
    AUTHORITY,
    NAME,
    SERVER,
    CertificateError,
    Certificates,
)
from ansible_collections.bedplate.cluster.plugins.modules import provision_certificate
from tests.kit.module import Module, result_of

pytestmark = pytest.mark.tools("openssl")
ADDRESS = "127.0.0.1"


@pytest.fixture(scope="module")
def made(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("made")
    found = at(folder).renew()
    assert found.reasons == {AUTHORITY: "missing", SERVER: "signed by another CA"}
    return folder


@pytest.fixture
def folder(tmp_path: Path, made: Path) -> Path:
    shutil.copytree(made, tmp_path / "host")
    return tmp_path / "host"


def at(folder: Path, address: str = ADDRESS) -> Certificates:
    return Certificates(folder / "tls", folder / "ca.pem", address)


def accepts(folder: Path, name: str) -> bool:
    """Return whether a client with the CA alone accepts the server under a name."""
    server = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    server.load_cert_chain(folder / "tls" / SERVER)
    context = ssl.create_default_context(cafile=str(folder / "ca.pem"))
    context.verify_flags |= ssl.VERIFY_X509_STRICT
    with socket.create_server((ADDRESS, 0)) as listening:

        def serve() -> None:
            plain, _peer = listening.accept()
            try:
                server.wrap_socket(plain, server_side=True).close()
            except OSError:
                plain.close()

        thread = threading.Thread(target=serve)
        thread.start()
        try:
            with socket.create_connection(listening.getsockname(), 5) as plain:
                context.wrap_socket(plain, server_hostname=name).close()
            return True
        except ssl.SSLCertVerificationError:
            return False
        finally:
            thread.join()


def test_a_client_accepts_the_address_and_the_name_of_the_proxy_alone(folder: Path) -> None:
    assert [accepts(folder, name) for name in (ADDRESS, NAME, "127.0.0.2", "localhost")] == [True, True, False, False]


def test_keys_are_private_and_the_public_file_has_none(folder: Path) -> None:
    modes = {path.name: path.stat().st_mode & 0o777 for path in (folder, *folder.rglob("*")) if path != folder}
    assert modes == {"tls": 0o700, AUTHORITY: 0o600, SERVER: 0o600, "ca.pem": 0o644}
    assert "PRIVATE" not in (folder / "ca.pem").read_text()


def test_a_second_run_changes_nothing(folder: Path) -> None:
    before = {path: path.read_bytes() for path in folder.rglob("*.pem")}
    assert at(folder).renew().files == []
    assert {path: path.read_bytes() for path in folder.rglob("*.pem")} == before


def expiring(monkeypatch: pytest.MonkeyPatch, name: str) -> None:
    """Have less time left of a certificate than it needs."""
    monkeypatch.setitem(certificates._LEFT, name, 4000)


def test_each_defect_makes_the_certificate_again_and_keeps_the_ca(
    folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    ca, pair = (folder / "ca.pem").read_text(), folder / "tls" / SERVER
    for renewed, reason in ((at(folder, "127.0.0.2"), "not valid for"), (at(folder), "not valid for")):
        found = renewed.renew()
        assert list(found.reasons) == [SERVER]
        assert reason in found.reasons[SERVER]
    pair.chmod(0o644)
    assert at(folder).renew().reasons == {SERVER: "others may read its key"}
    key = run_quick(["openssl", "genpkey", "-algorithm", "EC", "-pkeyopt", "ec_paramgen_curve:prime256v1"]).stdout
    text = pair.read_text()
    pair.write_text(text[: text.index("-----BEGIN PRIVATE")] + key)
    assert at(folder).renew().reasons == {SERVER: "key and certificate do not fit"}
    expiring(monkeypatch, SERVER)
    assert at(folder).renew().reasons == {SERVER: "less than 4000 days left"}
    assert (folder / "ca.pem").read_text() == ca


def test_a_ca_that_ends_is_made_again_with_all_that_it_signed(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    expiring(monkeypatch, AUTHORITY)
    predicted = at(folder).renew(check=True)
    assert predicted.files == [str(folder / one) for one in (f"tls/{AUTHORITY}", "ca.pem", f"tls/{SERVER}")]
    found = at(folder).renew()
    assert found == predicted
    assert list(found.reasons) == [AUTHORITY, SERVER]
    assert accepts(folder, ADDRESS)


@pytest.mark.parametrize("text", [None, "", "of another CA"])
def test_a_lost_or_wrong_public_file_is_written_again(text: str | None, folder: Path) -> None:
    (folder / "ca.pem").unlink()
    if text is not None:
        (folder / "ca.pem").write_text(text)
    assert at(folder).renew(check=True).files == [str(folder / "ca.pem")]
    assert at(folder).renew().files == [str(folder / "ca.pem")]
    assert accepts(folder, ADDRESS)


def test_a_folder_that_others_may_enter_is_private_again(folder: Path) -> None:
    tls = folder / "tls"
    tls.chmod(0o755)
    assert at(folder).renew(check=True).files == [str(tls)]
    assert tls.stat().st_mode & 0o777 == 0o755
    assert at(folder).renew().files == [str(tls)]
    assert tls.stat().st_mode & 0o777 == 0o700
    assert at(folder).renew().files == []


def test_check_predicts_and_writes_nothing(tmp_path: Path, folder: Path) -> None:
    fresh = tmp_path / "fresh"
    fresh.mkdir()
    assert at(fresh).renew(check=True).files == [
        str(fresh / one) for one in (f"tls/{AUTHORITY}", "ca.pem", f"tls/{SERVER}")
    ]
    assert list(fresh.iterdir()) == []
    before = (folder / "tls" / SERVER).read_bytes()
    assert at(folder, "127.0.0.2").renew(check=True).files == [str(folder / "tls" / SERVER)]
    assert (folder / "tls" / SERVER).read_bytes() == before


def test_a_failing_openssl_leaves_what_there_is(folder: Path) -> None:
    before = (folder / "tls" / SERVER).read_bytes()

    def broken(words: object) -> Outcome:
        is_making = "-newkey" in list(words)  # type: ignore[call-overload]
        return Outcome(1, "", "no entropy") if is_making else run_quick(words)  # type: ignore[arg-type]

    with pytest.raises(CertificateError, match="openssl req: no entropy"):
        Certificates(folder / "tls", folder / "ca.pem", "127.0.0.2", broken).renew()
    assert (folder / "tls" / SERVER).read_bytes() == before
    assert sorted(path.name for path in (folder / "tls").iterdir()) == [AUTHORITY, SERVER]


def test_no_key_is_on_a_command_line_or_in_a_result(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    given = {"folder": str(tmp_path / "tls"), "authority": str(tmp_path / "ca.pem"), "address": ADDRESS}
    seen: list[str] = []
    real = subprocess.Popen

    def popen(words: list[str], *args: object, **named: object) -> object:
        seen.extend(words)
        return real(words, *args, **named)  # type: ignore[call-overload]

    monkeypatch.setattr(subprocess, "Popen", popen)
    found = result_of(monkeypatch, provision_certificate, Module(given))
    assert found["changed"]
    keys = [path.read_text().split("PRIVATE KEY-----")[1].split()[0] for path in (tmp_path / "tls").glob("*.pem")]
    assert seen
    assert not [key for key in keys if key in str(found) or key in " ".join(seen)]
    assert not result_of(monkeypatch, provision_certificate, Module(given))["changed"]
