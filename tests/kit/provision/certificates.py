# SPDX-License-Identifier: GPL-3.0-or-later
"""Certificates for tests: a CA, and a server's certificate by it."""

from __future__ import annotations

import subprocess
from pathlib import Path


def make(folder: Path, names: str = "IP:127.0.0.1", *, rsa: bool = False) -> Path:
    """Make ca.pem, server.pem and server.key in a folder, and return it. `names` are the server's subjectAltNames."""
    folder.mkdir(parents=True, exist_ok=True)
    kind = ["rsa:3072"] if rsa else ["ec", "-pkeyopt", "ec_paramgen_curve:prime256v1"]
    curve = ["-newkey", *kind, "-nodes"]
    _openssl(
        "req",
        "-x509",
        *curve,
        "-days",
        "30",
        "-subj",
        "/CN=bedplate test CA",
        "-keyout",
        "ca.key",
        "-out",
        "ca.pem",
        folder=folder,
    )
    _openssl("req", *curve, "-subj", "/CN=order server", "-keyout", "server.key", "-out", "server.csr", folder=folder)
    (folder / "names").write_text(f"subjectAltName={names}\n")
    by_ca = ["-CA", "ca.pem", "-CAkey", "ca.key", "-CAcreateserial", "-days", "30", "-extfile", "names"]
    _openssl("x509", "-req", "-in", "server.csr", *by_ca, "-out", "server.pem", folder=folder)
    return folder


def _openssl(*words: str, folder: Path) -> None:
    subprocess.run(["openssl", *words], cwd=folder, check=True, capture_output=True, timeout=60)
