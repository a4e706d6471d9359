# SPDX-License-Identifier: GPL-3.0-or-later
"""Roles provision and image: a machine installs by the provision host, and nobody else gets anything from it."""

from __future__ import annotations

import json
import re
from pathlib import Path

import pytest

from tests.kit.provision.scenario import ADDRESS, FOLDER, HOST, NODE, PORT, Curl, Site, arm, done, trust_the_host, until

testinfra_hosts = ["ansible://provision_hosts"]

NONCE, OTHER = "a" * 36, "b" * 36
EXPOSURE = 2.0
"""Bound of what `systemd-analyze security` counts for the order server, from 0 to 10."""


@pytest.fixture(scope="module")
def site(tmp_path_factory: pytest.TempPathFactory) -> Site:
    """Serve the kit's image, as the image of a site that bedplate does not build."""
    found = Site(tmp_path_factory.mktemp("site"))
    assert found.apply() > 0
    trust_the_host()
    return found


def starts(*units: str) -> dict[str, str]:
    """Return the process of each unit."""
    return {unit: done(HOST, f"systemctl show --property=MainPID --value {unit}").strip() for unit in units}


def test_a_machine_installs_once_and_with_its_token_alone(site: Site) -> None:
    curl = Curl()
    order = arm(site, "gpu001", curl)
    assert curl.claim(order, NONCE, "0" * 64).status == 403
    assert curl.claim(order, NONCE).text == f"claimed {order.id} {NONCE}"
    assert curl.claim(order, OTHER).status == 409
    assert curl.get(f"/images/{site.image.sha256}.img.zst", hashed=True).text == site.image.sha256
    assert curl.post(order, "seed", nonce=NONCE, hashed=True).status == 200
    assert curl.post(order, "seed", nonce=NONCE).status == 409
    assert curl.post(order, "report", nonce=NONCE, result="written", reason="").status == 200
    claim = json.loads(done(HOST, f"cat {FOLDER}/orders/orders/{order.id}/claim"))
    # nginx is the order server's only client: the address is the machine's.
    assert claim["peer"] == "10.215.31.11"


def test_parts_of_images_and_media_are_sent(site: Site) -> None:
    curl = Curl()
    order = arm(site, "gpu002", curl)
    for path in (f"/images/{site.image.sha256}.img.zst", order.medium):
        assert curl.get(path, "--range", "0-3", hashed=True).status == 206
        assert done(NODE, "stat -c %s /root/body").strip() == "4"


@pytest.mark.parametrize(
    "path",
    ["/", "/images/", "/media/", "/orders/", "/images/../orders/lock", "/ca.pem", f"/media/{'0' * 40}.iso", f"/images/{'0' * 64}.img.zst"],
)  # fmt: skip
def test_nothing_is_listed_and_nothing_else_is_served(site: Site, path: str) -> None:
    assert Curl().get(path, "--path-as-is").status == 404


def test_a_machine_with_another_ca_gets_nothing(site: Site) -> None:
    done(NODE, f"curl -sS --cacert /root/ca.pem https://{ADDRESS}:{PORT}/ >/dev/null")
    assert "certificate" in done(NODE, f"curl -sS https://{ADDRESS}:{PORT}/ 2>&1 || true")


def test_the_order_server_is_reached_through_nginx_alone() -> None:
    listens = done(HOST, "ss -Hltn").splitlines()
    assert [one.split()[3] for one in listens if f":{PORT + 1}" in one] == [f"127.0.0.1:{PORT + 1}"]
    assert [one.split()[3] for one in listens if f":{PORT} " in one] == [f"{ADDRESS}:{PORT}"]


def test_secrets_have_their_modes() -> None:
    paths = "orders states served/media tls tls/server.pem tls/authority.pem ca.pem"
    found = done(HOST, f"cd {FOLDER} && stat -c '%a %U' {paths}").split("\n")
    assert found[:7] == ["700 root", "700 root", "700 root", "700 root", "600 root", "600 root", "644 root"]


def test_the_order_server_is_confined() -> None:
    text = done(HOST, "systemd-analyze security --no-pager bedplate-orders.service | tail -n 1")
    found = re.search(r"Overall exposure level for \S+: ([0-9.]+) ", text)
    assert found, text
    print(f"bedplate-orders: {found[1]}")
    assert float(found[1]) <= EXPOSURE
    pid = starts("bedplate-orders")["bedplate-orders"]
    status = done(HOST, f"cat /proc/{pid}/status")
    assert re.search(r"CapEff:\s+0{16}\n", status)
    assert re.search(r"NoNewPrivs:\s+1\n", status)
    assert re.search(r"Seccomp:\s+2\n", status)


def test_a_killed_order_server_keeps_its_claims_and_no_log_has_a_secret(site: Site) -> None:
    curl = Curl()
    order = arm(site, "gpu003", curl)
    assert curl.claim(order, NONCE).status == 200
    done(HOST, "systemctl stop bedplate-orders")
    assert curl.get(order.medium).status == 502
    assert curl.claim(order, NONCE).status == 502
    done(HOST, "systemctl start bedplate-orders")
    until(20, lambda: curl.claim(order, NONCE).status == 200)
    done(HOST, "systemctl kill --signal=KILL bedplate-orders")
    until(20, lambda: curl.claim(order, NONCE).status == 200)
    assert curl.claim(order, OTHER).status == 409
    logs = done(HOST, "journalctl --no-pager -o cat; cat /var/log/nginx/*")
    assert f"claim {order.id}" in logs
    assert "/images/" in logs
    for secret in (order.token, order.medium.rpartition("/")[2].removesuffix(".iso")):
        assert secret not in logs


def test_another_site_of_nginx_is_left_alone(site: Site) -> None:
    other = "server { listen 127.0.0.1:8099; return 204; }"
    done(HOST, f"echo '{other}' >/etc/nginx/conf.d/other.conf && systemctl reload nginx")
    before = starts("bedplate-orders", "nginx")
    assert site.apply() == 0
    assert "127.0.0.1:8099 " in done(HOST, "ss -Hltn")
    assert starts("bedplate-orders", "nginx") == before


def test_verify_finds_nothing_then_what_is_broken(site: Site) -> None:
    found = site.compare()
    assert found.returncode == 0, found.stdout[-3000:]
    served = f"{FOLDER}/served/images/{site.image.sha256}.img.zst"
    done(HOST, f"systemctl stop bedplate-orders && cp {served} /root/kept && printf x >>{served}")
    try:
        found = site.compare()
        assert f"POST https://{ADDRESS}:{PORT}/orders/{'0' * 32}/claim: expected status 403, found 502" in found.stdout
        assert "image tiny: expected to be served whole" in found.stdout
    finally:
        # The same file has two names.
        done(HOST, f"cat /root/kept >{served} && systemctl start bedplate-orders")


def test_another_image_than_the_stated_one_is_refused(site: Site, tmp_path: Path) -> None:
    stated = "0" * 64
    row = site.data["images"]["tiny"]
    site.data["images"]["tiny"] = {**row, "sha256": stated}
    site.write()
    try:
        found = site.run()
        assert found.returncode != 0
        line = next(n for n, text in enumerate(site.path.read_text().splitlines(), 1) if stated in text)
        place = f"{site.path}:{line}: images.tiny.sha256"
        assert f"{place} is {stated}, and {site.image.path} has {site.image.sha256}" in found.stdout
    finally:
        site.data["images"]["tiny"] = row
        site.write()


def test_another_address_renews_the_certificate_and_keeps_the_ca(site: Site) -> None:
    other = "10.215.31.20"
    before, ca = starts("bedplate-orders", "nginx"), done(HOST, f"sha256sum {FOLDER}/ca.pem")
    done(HOST, f"ip address replace {other}/24 dev eth0")
    site.data["provision"]["address"] = other
    site.write()
    try:
        assert site.apply() == 1
        assert Curl(other).get("/").status == 404
        now = starts("bedplate-orders", "nginx")
        assert now["nginx"] == before["nginx"]
        assert now["bedplate-orders"] != before["bedplate-orders"]
        assert done(HOST, f"sha256sum {FOLDER}/ca.pem") == ca
    finally:
        site.data["provision"]["address"] = ADDRESS
        site.write()
        site.apply()
    assert Curl().get("/").status == 404


@pytest.mark.full_in("metal")
def test_an_image_of_a_recipe_is_built_once(site: Site) -> None:
    recipe = json.dumps({"image_recipes": {"bookworm": {"release": "bookworm", "kernel": "linux-image-cloud-amd64"}}})
    assert site.apply(f"--extra-vars={recipe}") == 1
    found = json.loads(done(HOST, f"cat {FOLDER}/images/bookworm/image.json"))
    assert done(HOST, f"sha256sum {FOLDER}/served/images/{found['sha256']}.img.zst").split()[0] == found["sha256"]
    assert site.apply(f"--extra-vars={recipe}") == 0
