"""Every file of plugins/ compiles without a warning and can be imported, with both ends of the range of ansible-core and their Pythons.

`make sanity` imports them with the oldest Python of nodes.
"""

from __future__ import annotations

import importlib
import platform
import warnings
from pathlib import Path

from ansible import release

ROOT = Path(__file__).parents[2]
FILES = sorted((ROOT / "plugins").rglob("*.py"))
HERE = f"Python {platform.python_version()}, ansible-core {release.__version__}"


def test_every_file_compiles_without_a_warning():
    wrong = []
    for path in FILES:
        with warnings.catch_warnings():
            warnings.simplefilter("error")
            try:
                compile(path.read_text(encoding="utf-8"), path, "exec", dont_inherit=True)
            except (SyntaxError, Warning) as error:
                wrong.append(f"{path.relative_to(ROOT)}: {error}")
    assert not wrong, "\n".join([HERE, *wrong])


def test_every_file_can_be_imported():
    wrong = []
    for path in FILES:
        name = ".".join(path.relative_to(ROOT).with_suffix("").parts).removesuffix(".__init__")
        try:
            importlib.import_module(f"ansible_collections.bedplate.cluster.{name}")
        except Exception as error:
            wrong.append(f"{path.relative_to(ROOT)}: {type(error).__name__}: {error}")
    assert len(FILES) > 300
    assert not wrong, "\n".join([HERE, *wrong])
