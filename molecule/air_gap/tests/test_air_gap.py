"""A node that reaches the mirror and nothing else: all of the GPU software is there, and came from the mirror."""

from __future__ import annotations

import json

from lab.paths import state_of

testinfra_hosts = ["ansible://gpu_nodes"]

SITE = state_of("molecule-air_gap") / "vendor/public/site"
MIRROR = "http://10.215.9.10/site/debian-13"


def test_there_is_no_other_route(host):
    assert "default" not in host.check_output("ip route")
    tried = host.run(
        "timeout 20 python3 -c 'import urllib.request as u; u.urlopen(\"http://deb.debian.org/debian/\", timeout=15)'"
    )
    assert tried.rc != 0


def test_apt_knows_the_mirror_and_nothing_else(host):
    origins = set(host.check_output("apt-get indextargets --format '$(REPO_URI)'").split())
    assert {one.rstrip("./") for one in origins} == {MIRROR}


def test_the_whole_set_is_there_and_came_from_the_mirror(host):
    listed = {(one["name"], one["version"]) for one in json.loads((SITE / "artifacts.json").read_text())["packages"]}
    log = host.file("/var/log/apt/history.log").content_string
    rows = host.check_output(
        "dpkg-query --show --showformat='${Package} ${Version} ${db:Status-Status}\\n'"
    ).splitlines()
    there = [line.split()[:2] for line in rows if line.endswith(" installed")]
    # What this run has brought, and not the image.
    brought = {(name, version) for name, version in there if f" {name}:" in log}
    assert {"dkms", "nvidia-kernel-open-dkms", "nvidia-fabricmanager", "cuda-toolkit-12-9"} <= {
        name for name, _ in brought
    }
    assert brought <= listed


def test_the_module_is_compiled_with_a_compiler_of_the_mirror(host):
    kernel = host.check_output("ls /boot/vmlinuz-*").removeprefix("/boot/vmlinuz-")
    assert host.check_output(f"modinfo --set-version {kernel} --field version nvidia") == "580.65.06"


def test_every_artifact_has_an_origin_and_a_checksum():
    whole = json.loads((SITE / "artifacts.json").read_text())
    assert all(len(one["sha256"]) == 64 and one["size"] > 0 for one in whole["packages"])
    origins = {one["url"].split("/")[2] for one in whole["packages"]}
    assert origins == {"deb.debian.org", "10.215.9.10"}
    assert {one["origin"] for one in whole["keys"] if one["fingerprints"]} >= {"nvidia"}
