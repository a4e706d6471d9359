"""Defaults of nodes with GPUs: the table, the reader, and what each row does to files, tokens and settings."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from ansible_collections.bedplate.cluster.plugins.plugin_utils.gpu_stack import stack_table
from ansible_collections.bedplate.cluster.plugins.plugin_utils.tuning import node_defaults

from .node import FILE, deployed

AUTO: dict[str, Any] = {"init_on_alloc": None, "idle_us": "auto", "cmdline": [], "isolated_cpus": ""}
SETTINGS = {"bridge_power", "relaxed_ordering", "init_on_alloc", "intel_iommu", "idle_us"}
WITHOUT_GPUS = FILE.replace("    gpus: {model: h100, count: 2}\n", "").replace(" gpus: 0,", "").replace(" gpus: 1,", "")
DOCS = Path(__file__).parents[3] / "docs"


def of(folder: Path, model: str = "h100", text: str = FILE, **choices: Any) -> tuple[list[str], dict[str, Any]]:
    """Return tokens and settings of a node with two of these GPUs."""
    expected = deployed(folder, text.replace("h100", model), **{**AUTO, **choices})["expected"]
    return expected["tokens"], expected["settings"]


def test_each_row_says_why_where_from_and_whom_it_is_for() -> None:
    known = stack_table.default().models
    for row in node_defaults.rows():
        assert set(row) - {"architecture", "models"} == {"setting", "value", "why", "from", "seen"}
        assert row["setting"] in SETTINGS
        assert row["why"]
        assert row["from"]
        assert row.get("architecture", "arm64") in ("arm64", "x86_64")
        assert set(row.get("models", ())) <= set(known)
    assert {row["setting"] for row in node_defaults.rows()} == SETTINGS


def test_the_page_has_each_row_and_says_that_none_was_seen() -> None:
    page = (DOCS / "node-tuning.md").read_text()
    (section,) = (part for part in page.split("\n## ") if part.startswith("Defaults of nodes with GPUs"))
    lines = [line for line in section.splitlines() if line.startswith("| `")]
    names = [line.split("`")[1] for line in lines]
    variables = {"intel_iommu": "node_tuning_iommu"}
    assert {variables.get(name, f"node_tuning_{name}") for name in SETTINGS} <= set(names)
    assert not any(row["seen"] for row in node_defaults.rows())
    assert "measured on no node" in " ".join(section.split())


@pytest.mark.parametrize(("model", "tokens"), [("h100", []), ("h200", []), ("b200", ["intel_iommu=on"]), ("gb200", [])])
def test_intels_iommu_is_turned_on_with_b200(tmp_path: Path, model: str, tokens: list[str]) -> None:
    found = of(tmp_path, model)[0]
    assert [one for one in found if one.startswith("intel_iommu")] == tokens
    assert not [one for one in of(tmp_path, model, iommu="keep")[0] if "iommu" in one]


@pytest.mark.parametrize("model", ["h100", "b200", "gb200", "gh200"])
def test_pages_are_not_cleared_on_grace_unless_the_site_says_so(tmp_path: Path, model: str) -> None:
    grace = model.startswith("g")
    assert ("init_on_alloc=0" in of(tmp_path, model)[0]) == grace
    assert "init_on_alloc=0" not in of(tmp_path, model, init_on_alloc=True)[0]
    assert "init_on_alloc=0" in of(tmp_path, model, init_on_alloc=False)[0]


@pytest.mark.parametrize(
    ("model", "choice", "idle"),
    [
        ("h100", "auto", 3),
        ("b200", "auto", 3),
        ("gb200", "auto", None),
        ("h100", "keep", None),
        ("h100", None, None),
        # null of 0.1.0, after Ansible has made a text of it.
        ("h100", "", None),
        ("h100", "50", 50),
        ("gb200", 0, 0),
    ],
)
def test_deep_idle_states_are_off_on_x86_nodes_with_gpus(
    tmp_path: Path, model: str, choice: Any, idle: int | None
) -> None:
    assert of(tmp_path, model, idle_us=choice)[1].get("idle_us") == idle


@pytest.mark.parametrize("model", ["h100", "b200", "gb200"])
def test_nics_relax_ordering_and_bridges_stay_awake_unless_kept(tmp_path: Path, model: str) -> None:
    settings = of(tmp_path, model)[1]
    assert settings["bridge_power"] is True
    # Broadwell's root ports, as Linux has them.
    assert ["0x8086", "0x6f01", "0x6f0e"] in settings["relaxed_ordering"]["not_below"]
    kept = of(tmp_path, model, bridge_power="keep", relaxed_ordering="keep")[1]
    assert (kept["bridge_power"], kept["relaxed_ordering"]) == (False, None)


def test_a_node_without_gpus_has_none_of_them(tmp_path: Path) -> None:
    tokens, settings = of(tmp_path, text=WITHOUT_GPUS)
    assert not [one for one in tokens if one.startswith(("init_on_alloc", "intel_iommu"))]
    assert (settings["bridge_power"], settings["relaxed_ordering"], settings.get("idle_us")) == (False, None, None)


@pytest.mark.parametrize(("model", "token"), [("b200", "intel_iommu=on,sm_on"), ("gb200", "init_on_alloc=1")])
def test_a_token_of_the_site_has_its_key_alone(tmp_path: Path, model: str, token: str) -> None:
    found = of(tmp_path, model, cmdline=[token])[0]
    assert [one for one in found if one.partition("=")[0] == token.partition("=")[0]] == [token]


def test_defaults_that_need_tokens_are_left_out_without_a_command_line(tmp_path: Path) -> None:
    text = FILE.replace("    memory_mib:", "    boot: none\n    memory_mib:")
    tokens, settings = of(tmp_path, "gb200", text, cmdline=[])
    assert tokens == []
    assert settings["bridge_power"]


@pytest.mark.parametrize(
    ("model", "memory", "kib"),
    [("h100", 4096, None), ("h100", 51100, None), ("h100", 51300, 256 << 10), ("h100", 2063000, 2048 << 10), ("gb200", 980000, None)],
)  # fmt: skip
def test_the_kernel_keeps_memory_for_drivers_but_never_less_than_its_own_choice(
    tmp_path: Path, model: str, memory: int, kib: int | None
) -> None:
    text = FILE.replace("memory_mib: 4096", f"memory_mib: {memory}")
    found = of(tmp_path, model, text)[1]["sysctl"].get("vm.min_free_kbytes")
    assert found == (None if kib is None else str(kib))
