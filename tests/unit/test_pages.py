"""Pages name files that exist, and their examples are accepted."""

from __future__ import annotations

import re
from pathlib import Path

import pytest
import yaml

from ansible_collections.bedplate.cluster.plugins.plugin_utils.cluster import load
from ansible_collections.bedplate.cluster.plugins.plugin_utils.fabric.plan.buildable import fabric_mistakes

ROOT = Path(__file__).parents[2]
PAGES = sorted(
    [
        *ROOT.glob("docs/**/*.md"),
        *ROOT.glob("docs/schema/*.json"),
        *ROOT.glob("roles/*/README.md"),
        ROOT / "README.md",
        ROOT / "CONTRIBUTING.md",
        ROOT / "SECURITY.md",
        ROOT / "SUPPORT.md",
        *(path for folder in ("plugins", "tests") for path in ROOT.glob(f"{folder}/**/*.schema.json")),
    ]
)
TOPS = "benchmarks|docs|inventories/examples|lab|meta|molecule|playbooks|plugins|requirements|roles|tests|tools"
PATH = re.compile(rf"(?<![\w./~<>-])(?:\.\./)*((?:{TOPS})/[\w./*-]*[\w*])(?![\w<])")
PYTHON = re.compile(r"(?<![\w./-])([a-z]\w*\.py)\b")
# A folder of tests that the reader chooses, and the tests in the folder of a scenario.
PLACEHOLDERS = re.compile(r"tests/unit/AREA|tests/test_\*\.py")
# By the folders of the repository: ansible-test makes and removes environments in .cache while this runs.
PYTHON_FILES = {path.name for top in TOPS.split("|") for path in ROOT.glob(f"{top}/**/*.py")}


LINK = re.compile(r"\]\((?!https?:)([^)#\s]*)(?:#([^)\s]*))?\)")


def headings(page: Path) -> set[str]:
    """Return the anchors of a page's headings, as GitHub makes them."""
    titles = re.findall(r"^#+ (.*)$", page.read_text(encoding="utf-8"), re.MULTILINE)
    return {re.sub(r"[^\w\- ]", "", title.lower()).strip().replace(" ", "-") for title in titles}


def dead_links(page: Path, text: str) -> list[str]:
    """Return the links of a page to files and headings that do not exist."""
    found = []
    for path, anchor in LINK.findall(text):
        target = page.parent / path if path else page
        if not target.exists() or (anchor and target.suffix == ".md" and anchor not in headings(target)):
            found.append(f"{path}#{anchor}" if anchor else path)
    return found


def missing(text: str) -> list[str]:
    """Return the paths and the Python files in a text that this repository does not have."""
    paths = {path for path in PATH.findall(text) if not PLACEHOLDERS.fullmatch(path)}
    return sorted({path for path in paths if not any(ROOT.glob(path))} | (set(PYTHON.findall(text)) - PYTHON_FILES))


@pytest.mark.parametrize("page", PAGES, ids=lambda page: str(page.relative_to(ROOT)))
def test_every_file_that_a_page_names_exists(page: Path) -> None:
    assert missing(page.read_text(encoding="utf-8")) == []


@pytest.mark.parametrize(
    "page", [page for page in PAGES if page.suffix == ".md"], ids=lambda page: str(page.relative_to(ROOT))
)
def test_every_link_of_a_page_leads_somewhere(page: Path) -> None:
    assert dead_links(page, page.read_text(encoding="utf-8")) == []


def test_a_dead_link_is_found() -> None:
    text = "[a](verify.md) [b](verify.md#gone) [c](gone.md) [d](#gone) [e](https://example.org/x) [f](tutorial.md#4-test-access)"
    assert dead_links(ROOT / "docs/verify.md", text) == ["verify.md#gone", "gone.md", "#gone"]


@pytest.mark.parametrize(
    ("text", "paths"),
    [
        ("`tests/unit/gpu/test_gone.py` checks it.", ["tests/unit/gpu/test_gone.py"]),
        ("[testing](../docs/gone.md#start), playbooks/gone.yml.", ["docs/gone.md", "playbooks/gone.yml"]),
        ("see gone_module.py", ["gone_module.py"]),
        ("`plugins/gone/*` and `plugins/filter/*`", ["plugins/gone/*"]),
        ("inventories/mysite, roles/<outcome>, /usr/lib/python3/lab/gone, plugins/filter, docs/testing.md:", []),
    ],
)
def test_a_missing_file_is_found(text: str, paths: list[str]) -> None:
    assert missing(text) == paths


def example(page: str) -> str:
    """Return the first YAML example of a page."""
    found = re.search(r"```yaml\n(.*?)```", (ROOT / "docs" / page).read_text(encoding="utf-8"), re.DOTALL)
    assert found
    return found[1]


def test_the_example_of_a_cluster_file_has_a_fabric_that_can_be_built(tmp_path: Path) -> None:
    path = tmp_path / "west.bedplate.yml"
    path.write_text(example("cluster-file.md"))
    assert fabric_mistakes(load(path), needed=True) == []


def test_the_example_of_a_gpu_stack_resolves(tmp_path: Path) -> None:
    keys = yaml.safe_load(example("gpu-stack.md"))
    cluster = yaml.safe_load((ROOT / "inventories/examples/rack-4/rack-4.bedplate.yml").read_text())
    (hardware,) = cluster["profiles"].values()
    cluster["racks"] = {}
    for number, (model, profile) in enumerate(keys["profiles"].items()):
        profile.update(hardware, gpus={"model": model, "count": 8})
        cluster["racks"][f"r{number}"] = {"nodes": f"{model}-[1-2]", "profile": model}
    path = tmp_path / "gpu.bedplate.yml"
    path.write_text(yaml.safe_dump({**cluster, **keys}))
    assert all(profile.gpu_stack for profile in load(path).profiles.values())
