# SPDX-License-Identifier: GPL-3.0-or-later
"""Keep the compiled code of collections from one process to the next; Python imports this file where its folder is in PYTHONPATH.

Ansible's loader compiles every module of a collection in every process, which is a third of the time of a short playbook. A test suite
starts ansible-playbook some hundred times. Code is kept by its source and Python, so a changed file is compiled again, and a copy of the
collection is not.
"""

from __future__ import annotations

import _imp
import builtins
import hashlib
import marshal
import os
import sys
from importlib.util import MAGIC_NUMBER
from pathlib import Path
from typing import Any

FOLDER = Path(__file__).resolve().parents[3] / ".cache" / "compiled"
_LOADERS = {"flags": 0, "dont_inherit": True}
"""Ansible's loader compiles with these options, and nothing else does: others want a tree, for example."""
_compile = builtins.compile


def kept_compile(source: Any, filename: Any, mode: str, *more: Any, **options: Any) -> Any:
    """Compile as the builtin does; a module of a collection is compiled once."""
    if more or options != _LOADERS or mode != "exec" or "/ansible_collections/" not in str(filename):
        return _compile(source, filename, mode, *more, **options)
    text = source if isinstance(source, bytes) else source.encode()
    file = FOLDER / hashlib.sha256(MAGIC_NUMBER + bytes([sys.flags.optimize]) + text).hexdigest()
    try:
        code = marshal.loads(file.read_bytes())
    except (OSError, ValueError, EOFError, TypeError):
        code = _compile(source, filename, mode, *more, **options)
    else:
        # As Python does it with code from a .pyc file, for tracebacks.
        _imp._fix_co_filename(code, str(filename))  # type: ignore[attr-defined]
        return code
    try:
        FOLDER.mkdir(parents=True, exist_ok=True)
        whole = file.with_suffix(f".{os.getpid()}")
        whole.write_bytes(marshal.dumps(code))
        whole.replace(file)
    except OSError:
        pass  # such as a process of another user, or on a read-only file system
    return code


builtins.compile = kept_compile
