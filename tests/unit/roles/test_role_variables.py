"""A variable that looks like a role's and is none fails before any machine is touched."""

from __future__ import annotations

import os
import re
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from ansible_collections.bedplate.cluster.plugins.plugin_utils.common.role_interfaces import (
    hosts_to_read,
    interfaces,
    message,
    unknown_variables,
)
from ansible_collections.bedplate.cluster.plugins.plugin_utils.keys.openpgp import written
from tests.kit import plays, sentences
from tests.kit.public_keys import ONE, ONE_FINGERPRINT, TWO_FINGERPRINT

SENTENCES = Path(__file__).with_name("sentences.txt")
ROOT = Path(__file__).parents[3]
KNOWN = {"slurm": {"slurm_rest_listen", "slurm_cluster_file"}, "node_os": {"node_os_hosts"}}
SPEC = """\
argument_specs:
  main: {short_description: One, options: {demo_one: {type: str}, demo_two: {type: str}}}
  other: {short_description: Other, options: {demo_three: {type: str}}}
  bare: {short_description: Takes nothing}
"""


def test_a_role_takes_the_variables_of_all_its_entry_points(tmp_path: Path):
    (tmp_path / "demo/meta").mkdir(parents=True)
    (tmp_path / "demo/meta/argument_specs.yml").write_text(SPEC)
    (tmp_path / "without").mkdir()
    assert interfaces(tmp_path) == {"demo": {"demo_one", "demo_two", "demo_three"}}


def test_the_roles_of_the_collection_are_found():
    assert set(interfaces()) == {path.name for path in (ROOT / "roles").iterdir() if path.is_dir()}


@pytest.mark.parametrize(
    ("names", "unknown"),
    [
        (["slurm_rest_listen", "node_os_hosts"], {}),
        (["slurm_rest_listn"], {"slurm_rest_listn": "slurm"}),
        (["node_os_host", "slurm_x"], {"node_os_host": "node_os", "slurm_x": "slurm"}),
        # Neither the name of a role alone nor what only begins alike is a variable of the role.
        (["slurm", "slurmdbd_x", "node_osx", "__slurm_parts", "site"], {}),
    ],
)
def test_only_what_begins_with_the_name_of_a_role_is_its_variable(names: list[str], unknown: dict[str, str]):
    assert unknown_variables(names, KNOWN) == unknown


def test_the_message_has_the_nearest_name():
    text = message("slurm_rest_listn", "slurm", KNOWN)
    assert text.startswith("slurm_rest_listn ")
    assert text.endswith(" slurm_rest_listen?")
    sentences.check(SENTENCES, "a variable that is spelt wrong", [text])


def test_the_message_says_where_to_look_when_no_name_is_near():
    text = message("slurm_zzzzzzzz", "slurm", KNOWN)
    assert text.startswith("slurm_zzzzzzzz ")
    assert text.endswith("`ansible-doc -t role bedplate.cluster.slurm`")
    sentences.check(SENTENCES, "a variable that is like no other", [text])


def test_only_host_vars_that_may_hold_a_variable_of_a_role_are_read(tmp_path: Path):
    files = {
        "h1.yml": "slurm_x: 1",
        "h2.yml": "site_room: 1",
        "h3": "node_os_x: 1",
        "h4.json": '{"slurm_x": 1}',
        "h5.yml": "$ANSIBLE_VAULT;1.1;AES256\n3132",
        "h6.lab": "slurm_x: 1",
        "h7/main.yml": "site_room: 1",
    }
    for name, text in files.items():
        path = tmp_path / "host_vars" / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text)
    (tmp_path / "host_vars/h8.yml").symlink_to("nothing")
    found = hosts_to_read([tmp_path, tmp_path / "none"], ["slurm_", "node_os_"])
    assert found & {f"h{n}" for n in range(10)} == {"h1", "h3", "h4", "h5", "h6", "h7"}
    assert "h6.lab" in found


def play(*arguments: str | Path) -> tuple[int, str]:
    done = plays.play(*arguments)
    return done.returncode, done.stdout


def play_with(config: Path, *arguments: str | Path) -> tuple[int, str]:
    """Run ansible-playbook with another ansible.cfg, which is read at its start."""
    command = [Path(sys.executable).with_name("ansible-playbook"), *arguments]
    environment = {name: value for name, value in os.environ.items() if not name.startswith("ANSIBLE_")}
    environment |= {"ANSIBLE_CONFIG": str(config), "ANSIBLE_NOCOLOR": "true", "LC_ALL": "C.UTF-8"}
    done = subprocess.run(command, cwd=ROOT, env=environment, capture_output=True, text=True, timeout=120, check=False)
    return done.returncode, done.stdout + done.stderr


@pytest.mark.playbooks
@pytest.mark.parametrize("limit", [[], ["--limit", "gpu01"]], ids=["all", "limit"])
def test_an_inventory_without_a_slip_passes(limit: list[str]):
    code, output = play("playbooks/validate.yml", *limit)
    assert code == 0, output
    assert "ok=1 " in output


@pytest.mark.playbooks
def test_a_roll_without_slurm_is_refused_before_any_node_is_read(tmp_path: Path):
    (tmp_path / "hosts").write_text("[compute_nodes]\nn1\n")
    code, output = play("-i", tmp_path / "hosts", "playbooks/roll.yml")
    assert code != 0
    assert "the group slurm_controllers has no machine" in output
    assert "Compare kernel" not in output
    assert "the group slurm_controllers" not in play("-i", tmp_path / "hosts", "playbooks/validate.yml")[1]


@pytest.mark.ansible_core
@pytest.mark.playbooks
def test_a_broken_cluster_file_fails_where_ansible_would_go_on(tmp_path: Path):
    """A site's own ansible.cfg without any_unparsed_is_failed, under which a run without hosts is a success."""
    config, path = tmp_path / "ansible.cfg", tmp_path / "lab.bedplate.yml"
    config.write_text(
        f"[defaults]\ncollections_path = {ROOT / 'collections'}\n[inventory]\nenable_plugins = bedplate.cluster.racks\n"
        "any_unparsed_is_failed = false\n"
    )
    text = (ROOT / "inventories/lab/lab.bedplate.yml").read_text()
    path.write_text(text.replace("sockets:", "sokets:"))
    code, output = play_with(config, "-i", path, "playbooks/site.yml")
    assert code == 2, output
    assert "*.bedplate.yml" in output
    assert "sokets" in output
    path.write_text(text)
    assert play_with(config, "-i", path, "playbooks/validate.yml")[0] == 0


@pytest.mark.playbooks
def test_a_check_alone_warns_of_nodes_for_which_slurm_has_no_packages(tmp_path: Path):
    shutil.copytree(ROOT / "tests/roles/clusters/el", tmp_path / "el")
    code, output = play("-i", tmp_path / "el/el.bedplate.yml", "playbooks/validate.yml")
    assert code == 0, output
    said = " ".join(output.split())
    assert re.search(
        r"\[WARNING\]: \S+el\.bedplate\.yml:\d+: gpu_stack\.os: rocky-9: nodes of profile hgx have dnf", said
    )


@pytest.mark.playbooks
def test_a_key_of_a_repository_that_is_not_there_ends_the_whole_run_before_any_machine(tmp_path: Path):
    path = tmp_path / "lab.bedplate.yml"
    path.write_text((ROOT / "inventories/lab/lab.bedplate.yml").read_text())
    code, output = play("-i", path, "playbooks/site.yml")
    assert code == 2, output
    line = path.read_text().split("keys: {nvidia")[0].count("\n") + 1
    said = " ".join(output.split())
    assert re.search(rf"{path}:{line}: gpu_stack\.keys\.nvidia: [a-z ]*{tmp_path}/keys/nvidia\.asc", said)
    assert re.findall(r"^(\S+) +: ok=", output, re.MULTILINE) == ["localhost"]


def site_with_key(folder: Path, more: str) -> Path:
    """Write the lab's cluster file with a key of the tests and further lines of gpu_stack."""
    text = (ROOT / "inventories/lab/lab.bedplate.yml").read_text()
    path = folder / "lab.bedplate.yml"
    path.write_text(text.replace("  keys: {nvidia", f"{more}  keys: {{nvidia"))
    (folder / "keys").mkdir()
    (folder / "keys/nvidia.asc").write_text(ONE)
    return path


@pytest.mark.playbooks
def test_a_key_with_another_fingerprint_ends_the_whole_run_before_any_machine(tmp_path: Path):
    path = site_with_key(tmp_path, f'  fingerprints: {{nvidia: "{TWO_FINGERPRINT}"}}\n')
    code, output = play("-i", path, "playbooks/gpu.yml")
    assert code == 2, output
    said = " ".join(output.split())
    assert written(ONE_FINGERPRINT) in said
    assert written(TWO_FINGERPRINT) in said
    assert re.search(rf"{path}:\d+: gpu_stack\.keys\.nvidia: ", said)
    assert re.findall(r"^(\S+) +: ok=", output, re.MULTILINE) == ["localhost"]


@pytest.mark.playbooks
@pytest.mark.parametrize("stated", [False, True])
def test_a_key_is_shown_and_only_one_without_a_fingerprint_is_a_warning(tmp_path: Path, stated: bool):
    path = site_with_key(tmp_path, f'  fingerprints: {{nvidia: "{ONE_FINGERPRINT}"}}\n' if stated else "")
    code, output = play("-v", "-i", path, "playbooks/validate.yml", "-e", "__validate_gpu=true")
    assert code == 0, output
    said = " ".join(output.split())
    assert written(ONE_FINGERPRINT) in said
    assert ("[WARNING]" in output and f'fingerprints: {{nvidia: "{ONE_FINGERPRINT}"}}' in said) is not stated
    assert ("key of repository nvidia" in said) is stated


@pytest.mark.playbooks
def test_a_fabric_that_cannot_be_built_fails(tmp_path: Path):
    text = (ROOT / "inventories/lab/lab.bedplate.yml").read_text()
    path = tmp_path / "lab.bedplate.yml"
    path.write_text(
        text.replace("fabric: {spines: [spine01, spine02],", "fabric: {spines: [spine01, spine02], uplinks: 3,")
    )
    code, output = play("-i", path, "playbooks/validate.yml")
    assert code == 2, output
    assert re.search(r"\b3 uplinks\b.*\b2 spines\b", " ".join(output.split()))


@pytest.mark.ansible_core
@pytest.mark.playbooks
def test_a_slip_on_the_command_line_fails():
    code, output = play("playbooks/validate.yml", "-e", "slurm_rest_listn=1")
    assert code == 2, output
    assert re.search(r"this run: slurm_rest_listn .* slurm_rest_listen\?", output)


@pytest.mark.playbooks
@pytest.mark.parametrize(
    ("value", "said"),
    [
        (
            '{"slurm_database_lock_wait": "soon", "slurm_compute_packages": {"slurmd": "24.11"}, '
            '"slurm_compute_restrict_ssh": "perhaps", "slurm_controller_test_config": "{{ \'nope\' }}"}',
            [
                "this run: slurm_database_lock_wait: ",
                "this run: slurm_compute_packages: ",
                "this run: slurm_compute_restrict_ssh: ",
                "this run: slurm_controller_test_config: 'nope' ",
            ],
        ),
        (
            "slurm_compute_restrict_ssh=false slurm_compute_ssh_users=alice",
            ["this run: slurm_compute_restrict_ssh: 'false' ", "this run: slurm_compute_ssh_users: 'alice' "],
        ),
    ],
    ids=["data", "words"],
)
def test_values_of_another_type_fail(value: str, said: list[str]):
    code, output = play("playbooks/validate.yml", "-e", value)
    assert code == 2, output
    for text in said:
        assert text in output


@pytest.mark.playbooks
def test_what_variables_say_together_is_looked_at_where_they_meet(tmp_path: Path):
    """Each of two groups is right alone; the nodes of both have a priority that is not lossless."""
    shutil.copy(ROOT / "inventories/lab/lab.bedplate.yml", tmp_path)
    (tmp_path / "group_vars").mkdir()
    (tmp_path / "group_vars/rack_r1.yml").write_text(
        "rdma_dscp: 48\nrdma_priority: 6\nnode_tuning_isolated_cpus: 4-x\n"
    )
    (tmp_path / "group_vars/all.yml").write_text("rdma_cnp_dscp: 46\n")
    code, output = play("-i", tmp_path, "playbooks/validate.yml", "-e", "slurm_rest_listn=1")
    said = " ".join(output.split())
    assert code == 2, output
    assert "2 mistakes" in said
    assert "host gpu01 and 1 more: node_tuning_isolated_cpus: '4-x'" in said
    assert "rdma_cnp_dscp: " not in said
    (tmp_path / "group_vars/all.yml").write_text("rdma_cnp_dscp: 50\n")
    code, output = play("-i", tmp_path, "playbooks/validate.yml")
    assert re.search(r"host gpu01 and 1 more: rdma_cnp_dscp: 50 .*\b6\b.* rdma_priority", " ".join(output.split()))
    (tmp_path / "group_vars/rack_r1.yml").write_text('rdma_dscp: "{{ fact_of_a_host }}"\n')
    assert play("-i", tmp_path, "playbooks/validate.yml")[0] == 0


@pytest.mark.playbooks
def test_the_command_line_is_looked_at_where_the_inventory_has_the_name_too(tmp_path: Path):
    shutil.copy(ROOT / "inventories/lab/lab.bedplate.yml", tmp_path)
    (tmp_path / "group_vars").mkdir()
    (tmp_path / "group_vars/all.yml").write_text("slurm_compute_restrict_ssh: true\n")
    assert play("-i", tmp_path, "playbooks/validate.yml")[0] == 0
    code, output = play("-i", tmp_path, "playbooks/validate.yml", "-e", "slurm_compute_restrict_ssh=nope")
    assert code == 2, output
    assert "this run: slurm_compute_restrict_ssh: 'nope' " in output


@pytest.mark.playbooks
@pytest.mark.parametrize(
    "value",
    [
        '{"slurm_database_lock_wait": "900", "slurm_compute_restrict_ssh": "{{ y is undefined }}"}',
        # Only a host can say the second one.
        '{"slurm_database_lock_wait": "{{ x }}", "slurm_compute_restrict_ssh": "{{ fact_of_a_host }}"}',
    ],
    ids=["known", "of a host"],
)
def test_a_value_that_the_role_takes_passes_and_a_template_is_left_to_it(value: str):
    assert play("playbooks/validate.yml", "-e", value, "-e", "x=1")[0] == 0


@pytest.fixture(scope="module")
def site(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Return an inventory with a slip in every place, and a playbook that would touch its machines after the check."""
    base = tmp_path_factory.mktemp("site")
    files = {
        "lab.bedplate.yml": (ROOT / "inventories/lab/lab.bedplate.yml").read_text()
        + "compose: {slurm_composed: inventory_hostname}\n",
        "hosts.yml": "storage: {vars: {slurm_of_group: 1}, hosts: {nfs1: {slurm_of_host: 1}, nfs2: {}}}\n",
        "host_vars/gpu03.yml": "slurm_compute_restrct_ssh: false\nslurm_compute_restrict_ssh: false\n",
        "host_vars/gpu04/vars.yml": "node_os_host: {}\n",
        "host_vars/nfs2": "slurm_of_nfs2: 1\nsite_room: 1\n",
        "group_vars/rack_r2.yml": "slurm_of_rack: 1\n",
        # A host that lends its name is never connected to, however that would be done.
        "host_vars/gpu01.yml": "ansible_connection: no.such.plugin\nansible_become: true\n",
    }
    for name, text in files.items():
        path = base / name
        path.parent.mkdir(exist_ok=True)
        path.write_text(text)
    touch = f"- hosts: all\n  gather_facts: false\n  tasks: [{{ansible.builtin.raw: touch {base}/touched}}]\n"
    (base / "play").mkdir()
    shutil.copy(ROOT / "playbooks/validate.yml", base / "play")
    (base / "play/site.yml").write_text(f"- import_playbook: validate.yml\n{touch}")
    (base / "play/host_vars").mkdir()
    (base / "play/host_vars/gpu02.yml").write_text("slurm_beside_play: 1\n")
    return base


@pytest.mark.playbooks
@pytest.mark.parametrize("limit", ["", "gpu01"])
def test_a_slip_anywhere_stops_the_run_before_any_machine_is_touched(site: Path, limit: str):
    sources = [*("-i", site / "lab.bedplate.yml"), *("-i", site / "hosts.yml")]
    code, output = play(*sources, site / "play/site.yml", *(["--limit", limit] if limit else []))
    assert code == 2, output
    text = " ".join(output.split())
    for said in (
        "host gpu03: slurm_compute_restrct_ssh ",
        " slurm_compute_restrict_ssh?",
        "host gpu04: node_os_host ",
        "host nfs1: slurm_of_host ",
        "host nfs2: slurm_of_nfs2 ",
        "group storage: slurm_of_group ",
        "group rack_r2: slurm_of_rack ",
        "host ctl1 and 4 more: slurm_composed ",
        "host gpu02: slurm_beside_play ",
    ):
        assert said in text
    assert ": slurm_compute_restrict_ssh " not in text
    assert output.count("PLAY [") == 1
    assert not (site / "touched").exists()


@pytest.mark.playbooks
def test_a_node_in_no_partition_is_a_warning(tmp_path: Path):
    text = (ROOT / "inventories/lab/lab.bedplate.yml").read_text()
    inventory = tmp_path / "lab.bedplate.yml"
    inventory.write_text(re.sub(r"nodes: all\b", "nodes: gpu01", text))
    _status, output = play("-i", inventory, "playbooks/validate.yml")
    assert re.search(r"\[WARNING\]: \S+: nodes gpu\[03-04\] [a-z ]*partition", " ".join(output.split()))


PLAIN = """\
compute_nodes:
  hosts: {gpu1: {ansible_host: 10.0.0.11}, gpu2: {ansible_host: 10.0.0.12}}
"""


@pytest.mark.playbooks
def test_without_a_cluster_file_all_hosts_are_judged_by_the_same_rules(tmp_path: Path):
    """Neither the group bedplate nor Slurm is there."""
    (tmp_path / "hosts.yml").write_text(PLAIN)
    variables = tmp_path / "group_vars/compute_nodes.yml"
    variables.parent.mkdir()
    variables.write_text(
        "bedplate_hardware: {sockets: 2, gpus: {model: h100, count: 1}}\nbedplate_domain: west.example.org\n"
    )
    assert play("-i", tmp_path / "hosts.yml", "playbooks/validate.yml")[0] == 0
    variables.write_text(
        "bedplate_hardware: {sokets: 2}\nnode_tuning_isolated_cpus: 4-x\nrdma_extra_files: [{path: etc/x, content: y}]\n"
        "rdma_drop_ins: {other.service: {a.conf: ''}}\n"
    )
    (tmp_path / "host_vars").mkdir()
    (tmp_path / "host_vars/gpu2.yml").write_text("bedplate_address: 10.0.0.400\n")
    code, output = play("-i", tmp_path / "hosts.yml", "playbooks/validate.yml")
    said = " ".join(output.split())
    assert code == 2, output
    assert "5 mistakes" in said
    for line in (
        "host gpu1 and 1 more: node_tuning_isolated_cpus: '4-x'",
        "host gpu1 and 1 more: rdma_extra_files[0] etc/x: path is relative",
        "host gpu1 and 1 more: rdma_drop_ins: 'other.service'",
        "host gpu1: bedplate_hardware.sokets: ",
        "host gpu2: bedplate_address: '10.0.0.400'",
    ):
        assert line in said


@pytest.mark.playbooks
def test_without_a_cluster_file_slurm_is_judged_as_a_whole(tmp_path: Path):
    (tmp_path / "hosts.yml").write_text(f"{PLAIN}slurm_controllers: {{hosts: {{ctl1: {{ansible_host: 10.0.0.10}}}}}}\n")
    variables = tmp_path / "group_vars/all.yml"
    variables.parent.mkdir()
    hardware = "bedplate_hardware: {sockets: 1, cores_per_socket: 2, memory_mib: 1024}\n"
    variables.write_text(hardware)
    assert play("-i", tmp_path / "hosts.yml", "playbooks/validate.yml")[0] == 0
    variables.write_text(f"{hardware}slurm_options: {{SlurmctldTimout: 3}}\nbedplate_secrets: {{munge_key: short}}\n")
    code, output = play("-i", tmp_path / "hosts.yml", "playbooks/validate.yml")
    assert code == 2, output
    assert "slurm_options.SlurmctldTimout: " in output
    variables.write_text(f"{hardware}bedplate_secrets: {{munge_key: short}}\n")
    code, output = play("-i", tmp_path / "hosts.yml", "playbooks/validate.yml")
    assert code == 2, output
    assert "bedplate_secrets.munge_key: has 5 bytes" in output


@pytest.mark.playbooks
def test_certificates_that_cannot_be_written_stop_a_run_before_any_machine_is_touched(tmp_path: Path):
    text = (ROOT / "inventories/lab/lab.bedplate.yml").read_text()
    (tmp_path / "lab.bedplate.yml").write_text(f"{text}package_access: {{ca: gone.pem}}\n")
    code, output = play("-i", tmp_path / "lab.bedplate.yml", "playbooks/validate.yml")
    assert code == 2, output
    assert f"package_access.ca: {tmp_path}/gone.pem: " in output


@pytest.mark.playbooks
def test_software_that_variables_request_is_judged_before_any_machine_is_touched(tmp_path: Path):
    shutil.copytree(ROOT / "inventories/lab", tmp_path, dirs_exist_ok=True)
    variables = tmp_path / "group_vars/rack_r1.yml"
    variables.parent.mkdir(exist_ok=True)
    variables.write_text('gpu_driver_version: "five"\n')
    code, output = play("-i", tmp_path / "lab.bedplate.yml", "playbooks/validate.yml")
    assert code == 2, output
    assert "host gpu01 and 1 more: gpu_driver_version: " in " ".join(output.split())


@pytest.mark.playbooks
def test_what_a_cluster_file_says_is_refused_as_a_variable_wherever_it_is_set(tmp_path: Path):
    shutil.copy(ROOT / "inventories/lab/lab.bedplate.yml", tmp_path)
    (tmp_path / "group_vars").mkdir()
    (tmp_path / "group_vars/rack_r1.yml").write_text('bedplate_hardware: {sockets: 1}\nslurm_version: "25.05"\n')
    (tmp_path / "group_vars/rack_r2.yml").write_text("slurm_partitions: null\n")
    code, output = play("-i", tmp_path, "playbooks/validate.yml", "-e", '{"slurm_options": {"a": 1}}')
    said = " ".join(output.split())
    assert code == 2, output
    assert "3 mistakes" in said
    for line in ("group rack_r1: bedplate_hardware", "group rack_r1: slurm_version", "this run: slurm_options"):
        assert f"{line}: this inventory has a cluster file. Set `" in said
    code, output = play("playbooks/validate.yml", "-e", '{"bedplate_hardware": {"sockets": 1}}')
    assert code == 2, output
    assert "this run: bedplate_hardware: this inventory has a cluster file" in output


@pytest.mark.playbooks
def test_a_secret_that_only_one_group_needs_is_missed_before_any_machine_is_touched(tmp_path: Path):
    shutil.copy(ROOT / "inventories/lab/lab.bedplate.yml", tmp_path)
    (tmp_path / "group_vars").mkdir()
    (tmp_path / "group_vars/all.yml").write_text(
        f"bedplate_secrets_dir: {tmp_path}/secrets\nbedplate_secrets_make: false\n"
    )
    (tmp_path / "group_vars/rack_r2.yml").write_text("rdma_extra_files: [{path: /etc/token, secret: site_token}]\n")
    wanted = ("-e", '{"__validate_secrets": ["rdma"]}')
    code, output = play("-i", tmp_path, "playbooks/validate.yml", *wanted)
    assert code == 2, output
    assert "secret site_token: not found" in " ".join(output.split())
    (tmp_path / "secrets").mkdir(mode=0o700)
    (tmp_path / "secrets/site_token").touch(0o400)
    (tmp_path / "secrets/site_token").chmod(0o600)
    (tmp_path / "secrets/site_token").write_text("x")
    assert play("-i", tmp_path, "playbooks/validate.yml", *wanted)[0] == 0
    (tmp_path / "group_vars/rack_r1.yml").write_text("bedplate_secrets_make: true\nbedplate_secrets_dir: /other\n")
    code, output = play("-i", tmp_path, "playbooks/validate.yml", *wanted)
    assert code == 2, output
    for name in ("bedplate_secrets_make", "bedplate_secrets_dir"):
        assert f"group rack_r1: {name}: holds for all machines" in " ".join(output.split())


@pytest.mark.playbooks
def test_a_secret_of_a_sites_own_file_is_missed_before_any_machine_is_touched_without_slurm_too(tmp_path: Path):
    (tmp_path / "hosts.yml").write_text("compute_nodes: {hosts: {gpu1: {ansible_host: 10.0.0.1}}}\nrdma_nodes: {}\n")
    (tmp_path / "group_vars").mkdir()
    own = f"bedplate_secrets_dir: {tmp_path}/secrets\nbedplate_secrets_make: false\n"
    (tmp_path / "group_vars/all.yml").write_text(
        f"{own}rdma_extra_files: [{{path: /etc/token, secret: site_token}}]\ncuda_extra_files: 5\n"
    )
    code, output = play("-i", tmp_path / "hosts.yml", "playbooks/rdma.yml")
    said = " ".join(output.split())
    assert code == 2, output
    assert "secret site_token: not found" in said
    assert "cuda_extra_files" in said
    (tmp_path / "group_vars/all.yml").write_text(f"{own}rdma_extra_files: [{{path: /etc/token, secret: site_token}}]\n")
    others = ("-e", '{"__validate_secrets": ["node_tuning"]}')
    assert play("-i", tmp_path / "hosts.yml", "playbooks/validate.yml", *others)[0] == 0


@pytest.mark.playbooks
def test_what_a_site_changes_with_templates_is_checked_before_any_machine_is_touched(tmp_path: Path):
    shutil.copy(ROOT / "inventories/lab/lab.bedplate.yml", tmp_path)
    (tmp_path / "group_vars").mkdir()
    (tmp_path / "templates").mkdir()
    (tmp_path / "templates/nccl.j2").write_text("{{ values.nccl | length }}")
    variables = tmp_path / "group_vars/compute_nodes.yml"
    template = """rdma_templates: {nccl.conf.j2: "{{ inventory_dir }}/templates/nccl.j2"}\n"""
    variables.write_text(
        template + """node_os_extra_files: [{path: /etc/a, content: "{{ ansible_facts.x }} {{ own }}"}]\nown: 1\n"""
    )
    code, output = play("-i", tmp_path, "playbooks/validate.yml")
    assert code == 0, output
    (tmp_path / "templates/nccl.j2").write_text("a\n{{ values.nccl\n")
    variables.write_text(
        f"""{template}rdma_drop_ins: {{none.service: {{}}}}
node_os_time_servers: ["{{{{ ntp_servr }}}}"]
ntp_server: a
slurm_compute_ssh_users: "{{{{ broken "
node_tuning_extra_files: [{{path: /etc/a, src: files/none}}]
# On no host of this group does this role run.
opensm_extra_files: [{{path: /etc/b, content: "{{{{ nowhere }}}}"}}]
"""
    )
    code, output = play("-i", tmp_path, "playbooks/validate.yml")
    said = " ".join(output.split())
    assert code == 2, output
    assert "4 mistakes" in said
    assert "[WARNING]: host gpu01: node_os_time_servers: 'ntp_servr' is undefined." in said
    # A run that deploys the role would fail on each host.
    code, output = play("-i", tmp_path, "playbooks/os.yml")
    said = " ".join(output.split())
    assert code == 2, output
    assert "5 mistakes" in said, output
    for text in (
        f"host gpu01: rdma_templates: nccl.conf.j2: {tmp_path}/templates/nccl.j2:2: not a valid template",
        "host gpu01: rdma_drop_ins: 'none.service'",
        "host gpu01: node_os_time_servers: 'ntp_servr' is undefined. Did you mean 'ntp_server'?",
        "group compute_nodes: slurm_compute_ssh_users: Syntax error in template",
        "host gpu01 and 3 more: node_tuning_extra_files[0] /etc/a: src: files/none: file not found",
    ):
        assert text in said


@pytest.mark.playbooks
def test_names_that_ansible_ignores_are_reported(tmp_path: Path):
    shutil.copy(ROOT / "inventories/lab/lab.bedplate.yml", tmp_path)
    (tmp_path / "group_vars").mkdir()
    (tmp_path / "group_vars/gpu_node.yml").write_text("a: 1\n")
    (tmp_path / "group_vars/gpu_nodes.yml").write_text("bedplate_secret: {}\n")
    wrong = ("--tags", "slurm", "-e", "gpu_drivers_version=580")
    code, output = play("-i", tmp_path, "playbooks/validate.yml", *wrong)
    said = " ".join(output.split())
    assert code == 2, output
    assert "group gpu_nodes: bedplate_secret: nothing reads this variable. Did you mean bedplate_secrets?" in said
    assert "this run: gpu_drivers_version: nothing reads this variable." in said
    assert f"[WARNING]: {tmp_path}/group_vars/gpu_node.yml: not read" in said
    assert "[WARNING]: --tags slurm: no task of bedplate has this tag. Did you mean scheduler?" in said
    (tmp_path / "lab.bedplate.yml").unlink()
    (tmp_path / "hosts.yml").write_text("slurm_controler: {hosts: {ctl1: }}\n")
    code, output = play("-i", tmp_path, "playbooks/validate.yml")
    assert code == 2, output
    assert "group slurm_controler: nothing is deployed on this group." in " ".join(output.split())


@pytest.mark.playbooks
def test_a_group_that_ansible_would_miss_at_a_play_ends_the_run_at_its_start(tmp_path: Path):
    page = (ROOT / "docs/how-to/without-a-cluster-file.md").read_text()
    text = page.partition("# hosts.yml\n")[2].partition("```")[0]
    (tmp_path / "hosts.yml").write_text(text)
    code, output = play("-i", tmp_path / "hosts.yml", "playbooks/scheduler.yml", "--list-hosts")
    assert code == 0, output
    (tmp_path / "hosts.yml").write_text(text.replace("    slurm_rest: {}\n", ""))
    code, output = play("-i", tmp_path / "hosts.yml", "playbooks/scheduler.yml")
    assert code == 2, output
    assert "groups slurm_rest: this run names them" in " ".join(output.split())


@pytest.mark.playbooks
def test_a_file_of_variables_that_is_not_yaml_is_named_with_its_line(tmp_path: Path):
    shutil.copy(ROOT / "inventories/lab/lab.bedplate.yml", tmp_path)
    (tmp_path / "group_vars").mkdir()
    (tmp_path / "group_vars/gpu_nodes.yml").write_text("a: 1\n b: 2\n")
    code, output = play("-i", tmp_path, "playbooks/validate.yml")
    assert code == 2, output
    assert f"{tmp_path}/group_vars/gpu_nodes.yml:2: " in output


@pytest.mark.playbooks
def test_a_path_that_a_part_writes_is_refused_before_any_machine_is_touched(tmp_path: Path):
    shutil.copy(ROOT / "inventories/lab/lab.bedplate.yml", tmp_path)
    (tmp_path / "group_vars").mkdir()
    (tmp_path / "host_vars").mkdir()
    (tmp_path / "group_vars/all.yml").write_text(
        """node_os_extra_files:
  - {path: /etc/slurm/slurm.conf, content: ""}
  - {path: /etc/motd.d/site, content: ""}
  - {path: "{{ site_path }}", content: ""}
site_path: /etc/security/limits.d/60-bedplate.conf/x
"""
    )
    (tmp_path / "group_vars/compute_nodes.yml").write_text(
        """node_tuning_extra_files: [{path: /etc/motd.d/site, content: a}]
slurm_drop_ins: {slurmd.service: {60-bedplate-limits.conf: ""}}
"""
    )
    (tmp_path / "host_vars/gpu03.yml").write_text("site_path: /etc/cron.d/site\n")
    code, output = play("-i", tmp_path, "playbooks/validate.yml")
    said = " ".join(output.split())
    assert code == 2, output
    assert "4 mistakes" in said, output
    for text in (
        "host ctl1: node_os_extra_files[0] /etc/slurm/slurm.conf: the part controller of the role slurm",
        "host gpu01 and 2 more: node_os_extra_files[2] /etc/security/limits.d/60-bedplate.conf/x: is below",
        "host gpu01 and 3 more: node_os_extra_files[1] /etc/motd.d/site: node_tuning_extra_files[0] /etc/motd.d/site",
        "host gpu01 and 3 more: slurm_drop_ins: slurmd.service: 60-bedplate-limits.conf",
    ):
        assert text in said
    assert re.findall(r"^(\S+) +: ok=", output, re.MULTILINE) == ["localhost"]


@pytest.mark.playbooks
def test_a_template_with_an_undefined_variable_is_refused_before_any_machine_is_touched(tmp_path: Path):
    shutil.copy(ROOT / "inventories/lab/lab.bedplate.yml", tmp_path)
    for folder in ("group_vars", "host_vars", "templates"):
        (tmp_path / folder).mkdir()
    (tmp_path / "templates/limits.j2").write_text("{{ values.limits }}\n# {{ site_note }}\n")
    (tmp_path / "templates/motd.j2").write_text(
        "{{ site_note }} {{ hostvars[groups.all[0]].inventory_hostname }} {{ node_os_time_servers }} {{ inventory_dir }}"
    )
    variables = tmp_path / "group_vars/compute_nodes.yml"
    variables.write_text(
        """node_tuning_templates: {limits.conf.j2: "{{ inventory_dir }}/templates/limits.j2"}
node_os_extra_files: [{path: /etc/motd, template: "{{ inventory_dir }}/templates/motd.j2"}]
"""
    )
    for name in ("gpu01", "gpu02"):
        (tmp_path / f"host_vars/{name}.yml").write_text("site_note: a\n")
    code, output = play("-i", tmp_path, "playbooks/validate.yml")
    said = " ".join(output.split())
    assert code == 2, output
    assert "2 mistakes" in said, output
    for text in (
        f"host gpu03 and 1 more: node_tuning_templates: limits.conf.j2: {tmp_path}/templates/limits.j2:2: 'site_note' is",
        f"host gpu03 and 1 more: node_os_extra_files[0] /etc/motd: template: {tmp_path}/templates/motd.j2:1: 'site_note'",
    ):
        assert text in said
    # This run does not deploy node_tuning; another may define the variable.
    code, output = play("-i", tmp_path, "playbooks/os.yml")
    said = " ".join(output.split())
    assert code == 2, output
    assert "1 mistake," in said
    assert "[WARNING]: host gpu03 and 1 more: node_tuning_templates: limits.conf.j2" in said
    variables.write_text(f"{variables.read_text()}site_note: b\n")
    code, output = play("-i", tmp_path, "playbooks/validate.yml")
    assert code == 0, output


@pytest.mark.playbooks
def test_without_a_cluster_file_changes_of_a_site_are_judged_too(tmp_path: Path):
    (tmp_path / "hosts.yml").write_text(PLAIN)
    variables = tmp_path / "group_vars/compute_nodes.yml"
    variables.parent.mkdir()
    (tmp_path / "motd.j2").write_text("{{ site_note }}")
    variables.write_text(
        """bedplate_hardware: {sockets: 2, gpus: {model: h100, count: 1}}
node_tuning_extra_files:
  - {path: /etc/sysctl.d/60-bedplate.conf, content: ""}
  - {path: /etc/hosts, content: ""}
  - {path: /etc/motd, template: "{{ inventory_dir }}/motd.j2"}
"""
    )
    code, output = play("-i", tmp_path / "hosts.yml", "playbooks/validate.yml")
    said = " ".join(output.split())
    assert code == 2, output
    for text in (
        "host gpu1 and 1 more: node_tuning_extra_files[0] /etc/sysctl.d/60-bedplate.conf: the part node_tuning",
        f"host gpu1 and 1 more: node_tuning_extra_files[2] /etc/motd: template: {tmp_path}/motd.j2:1: 'site_note'",
    ):
        assert text in said
