"""What the order server answers, whom the installer believes, and where its secrets are."""

from __future__ import annotations

import subprocess
from pathlib import Path

import pytest

from ansible_collections.bedplate.cluster.plugins.module_utils.provision import order_text, seed
from tests.kit.provision import certificates, faulty
from tests.kit.provision.machine import Machine
from tests.unit.provision.test_installer import _gpt, never_boots, refuses


def change_answer(node: Machine, verb: str, code: str) -> None:
    """Have code of bash change the answer to a request, whose file is `$file`."""
    faulty.at_words(node, "curl", f"/{verb} ", f'"$real" "$@"; file={node.root}/run/answer.{verb}; {code}; exit 0')


@pytest.mark.parametrize(
    "code",
    [
        "echo ok >$file",
        "echo again >>$file",
        ": >$file",
        "/bin/sed -i 's/1111/2222/' $file",
        "/bin/sed -i 's/claimed ./claimed x/' $file",
    ],
)
def test_a_claim_that_is_not_confirmed(site, node: Machine, code: str) -> None:
    _gpt(node.disk)
    change_answer(node, "claim", code)
    refuses(node, site, site.arm_for(node, wipe="yes"), "does not confirm the claim")


@pytest.mark.parametrize("code", ["echo reported >$file", "echo again >>$file"])
def test_a_report_that_is_not_confirmed(site, node: Machine, code: str) -> None:
    change_answer(node, "report", code)
    site.arm_for(node)
    ended = node.install()
    assert (ended.code, ended.is_off) == (0, True)
    assert "the result could not be reported" in ended.console


def test_a_seed_that_is_gone(site, node: Machine) -> None:
    order = site.arm_for(node)
    (site.server.orders.folder / "orders" / order.id / "seed.tar").unlink()
    ended = node.install()
    assert (ended.code, site.state(order)) == (1, "refused")
    assert "does not send the seed: 409 refused: the seed was fetched before" in ended.reason
    never_boots(node)


def test_a_refusal_before_the_claim_raises_the_network_with_its_route(site, node: Machine) -> None:
    calls = node.root / "ip.calls"
    faulty.at_words(node, "ip", "route", f'echo "$*" >>{calls}')
    (node.sys / "class/dmi/id/product_serial").write_text("X\n")
    refuses(node, site, site.arm_for(node), "serial")
    assert "route replace default via 10.20.8.1 dev eth0" in calls.read_text()


def test_a_refusal_that_cannot_be_reported_switches_off(site, node: Machine) -> None:
    faulty.at_words(node, "ip", "link", "exit 1")
    (node.sys / "class/dmi/id/product_serial").write_text("X\n")
    refuses(node, site, site.arm_for(node), "serial", state="armed")


def test_a_refusal_after_the_claim_is_of_the_claimer(site, node: Machine) -> None:
    """The network is not raised again: another random number would be another start of the machine."""
    number = node.proc / "sys/kernel/random/uuid"
    faulty.at_words(node, "curl", "/images/", f"echo 22222222-2222-3333-4444-555555555555 >{number}; exit 1")
    order = site.arm_for(node)
    assert (node.install().code, site.state(order)) == (1, "refused")


def test_no_route_without_a_gateway(site, node: Machine) -> None:
    faulty.at_words(node, "ip", "route", "exit 1")
    order = site.arm_for(node, gateway="none")
    assert node.install().code == 0
    assert site.state(order) == "written"


def test_an_answer_that_was_lost_is_sent_again(site, node: Machine) -> None:
    node.seconds = 1
    faulty.at_words(node, "curl", "/claim ", '"$real" "$@"; exit 56')
    faulty.at_words(node, "sleep", " 3 ", "exit 0")
    order = site.arm_for(node)
    assert node.install().code == 0
    assert site.state(order) == "written"


@pytest.mark.parametrize("name", ["system", "curlrc", "proxy"])
def test_the_order_alone_names_server_and_ca(site, node: Machine, tmp_path: Path, name: str) -> None:
    other = certificates.make(tmp_path / "other") / "ca.pem"
    if name == "system":
        # A CA that the system trusts, beside that of the order.
        trusted = tmp_path / "trusted"
        trusted.mkdir()
        (trusted / "ca.pem").write_bytes(site.ca.read_bytes())
        subprocess.run(["openssl", "rehash", str(trusted)], check=True, capture_output=True)
        node.environment["SSL_CERT_DIR"] = str(trusted)
    elif name == "curlrc":
        (tmp_path / ".curlrc").write_text("insecure\n")
        node.environment["HOME"] = str(tmp_path)
    else:
        node.environment["https_proxy"] = "http://127.0.0.1:9"
    order = site.arm_for(node)
    if name == "proxy":
        assert node.install().code == 0
        return
    node.give(order_text.render(order), other)
    refuses(node, site, order, "does not answer the claim", state="armed")


def test_secrets_are_on_no_command_line_and_for_no_other_user(site, node: Machine) -> None:
    logs = node.root / "words"
    for name in ("curl", "debugfs", "dd", "tar", "ssh-keygen"):
        faulty.at_words(node, name, " ", ":", 0)
        script = node.bin / name
        script.write_text(script.read_text().replace("pattern=", f'echo "$*" >>{logs}\npattern=', 1))
    files = {path: file for path, file in site.files().items() if "ssh_host" not in path}
    values = site.values(host_key="machine", address="127.0.0.1/8")
    order = site.server.orders.arm(values, seed.pack(files), 3600).order
    node.give(order_text.render(order), site.ca)
    assert node.install().code == 0
    words = logs.read_text()
    assert order.id in words
    assert order.token not in words
    run = node.root / "run"
    assert order.token in (run / "authorization").read_text()
    assert "PRIVATE" in (run / "host-key").read_text()
    assert [path for path in (run, *run.rglob("*")) if not path.is_symlink() and path.stat().st_mode & 0o077] == []


def test_a_host_key_that_was_not_made(site, node: Machine) -> None:
    files = {path: file for path, file in site.files().items() if "ssh_host" not in path}
    values = site.values(host_key="machine", address="127.0.0.1/8")
    order = site.server.orders.arm(values, seed.pack(files), 3600).order
    node.give(order_text.render(order), site.ca)
    faulty.at_words(node, "ssh-keygen", "-q *host-key ", faulty.WORKS_AND_FAILS)
    ended = node.install()
    assert (ended.code, site.state(order)) == (1, "refused"), ended.console
    assert ended.reason == "ssh-keygen does not make a host key"
    never_boots(node)


def test_no_folder_in_memory(site, node: Machine) -> None:
    order = site.arm_for(node)
    (node.root / "run").write_text("")
    refuses(node, site, order, "no folder", state="armed")


def test_an_installer_without_a_part_does_nothing(site, node: Machine) -> None:
    order = site.arm_for(node)
    before = node.digest()
    for name in ("order", "machine", "contents", "server", "seed"):
        words = node._words()
        lib = node.root / f"lib-{name}"
        subprocess.run(["cp", "-r", words[2], str(lib)], check=True)
        (lib / f"{name}.sh").unlink()
        words[1:3] = [str(lib / "main.sh"), str(lib)]
        assert subprocess.run(words, env=node._environment(), capture_output=True).returncode != 0
    assert (node.digest(), site.state(order)) == (before, "armed")
