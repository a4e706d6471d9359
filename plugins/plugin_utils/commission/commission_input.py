# SPDX-License-Identifier: GPL-3.0-or-later
"""Turn the variables of a run into its order. All mistakes in nodes, CA and key are reported at once, before a BMC is contacted."""

from __future__ import annotations

import os
import stat
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import TypeVar

from ...module_utils.common.files import write_new
from ...module_utils.common.hostlist import fold
from ..bmc.bmc_targets import NameMistakesError, Target, named_nodes, targets_of
from ..bmc.run_input import RunError, RunInput
from ..cluster import Cluster
from ..common.cluster_secrets import ClusterSecrets
from ..common.secrets import SecretError
from . import bmc_authority
from .bmc_authority import Authority, AuthorityError
from .commission_order import CommissionOrder

T = TypeVar("T")
MAKE = "make"
CA_KEY = "bmc_ca_key"
"""Name of the secret with the key of a CA that bedplate made."""


def order_of(given: RunInput, secrets: ClusterSecrets, *, check: bool) -> tuple[dict[str, Target], CommissionOrder]:
    """Return the named nodes' BMCs and the order. With bmc_ca_key=make a missing CA is made, except in check mode.

    Raises RunError with all mistakes. SecretError: the secrets directory cannot be used.
    """
    choices, mistakes = given.choices, list[str]()
    nodes = _checked(mistakes, lambda: named_nodes(choices["bmc_nodes"], given.cluster, "bmc_nodes", given.limit)) or []
    targets = targets_of(given.cluster, given.record, nodes)
    if unknown := [node for node, one in targets.items() if not one.recorded.serial]:
        remedy = "Run bmc_discover.yml -e bmc_record=true, or import_machines.yml"
        mistakes.append(f"{fold(unknown)}: no serial number on record, so the machine cannot be identified. {remedy}.")
    signer = _Signer(given, secrets)
    authority = _checked(mistakes, lambda: signer.read(makes=not check and not mistakes))
    if mistakes:
        raise RunError("\n".join(mistakes))
    cluster = given.cluster
    reach = given.reach
    if reach.ca_file and not Path(reach.ca_file).exists():
        # In check mode the CA is not made, so nothing can be of it.
        reach = replace(reach, ca_file="")
    return targets, CommissionOrder(
        reach,
        choices["bmc_user"],
        choices["bmc_ntp"],
        not choices["bmc_keep_ipmi"],
        authority,
        bool(choices["bmc_ca_key"]),
        choices["bmc_certificate_days"],
        cluster.site or cluster.name,
        cluster.name,
        check,
    )


def _checked(mistakes: list[str], read: Callable[[], T]) -> T | None:
    """Return what a function returns, None after adding its mistakes."""
    try:
        return read()
    except (NameMistakesError, RunError) as error:
        mistakes.append(str(error))
        return None


class _Signer:
    """The CA that `bmc_ca_key` and `provision.bmc.ca` name."""

    def __init__(self, given: RunInput, secrets: ClusterSecrets) -> None:
        self.cluster: Cluster = given.cluster
        self.choice, self.ca_file, self.secrets = str(given.choices[CA_KEY]), given.reach.ca_file, secrets

    def read(self, *, makes: bool) -> Authority | None:
        """Return the CA, None if there is no key, or none yet and `makes` is false. Raises RunError for each mistake."""
        if self.ca_file and self.choice != MAKE:
            self._certificates()
        if not self.choice:
            return None
        if not self.ca_file:
            raise RunError(
                f"{CA_KEY}: the cluster file names no CA, so nothing could verify the certificates. Add `provision: {{bmc: {{ca: FILE}}}}`."
            )
        key = self._made(makes) if self.choice == MAKE else self._key()
        if key is None:
            return None
        try:
            return bmc_authority.read(self._certificates(), key)
        except AuthorityError as error:
            raise RunError(f"{CA_KEY}: {self._place}, with {self.ca_file}: {error}. Name the key of this CA.") from None

    @property
    def _place(self) -> str:
        return f"secret {CA_KEY}" if self.choice == MAKE else self.choice

    def _certificates(self) -> bytes:
        try:
            return Path(self.ca_file).read_bytes()
        except OSError as error:
            remedy = f"Write the certificate of the CA there, or let a CA be made: -e {CA_KEY}={MAKE}."
            raise RunError(f"provision.bmc.ca: {self.ca_file}: {error.strerror}. {remedy}") from None

    def _key(self) -> bytes:
        path = Path(self.choice).expanduser()
        if not path.is_absolute():
            raise RunError(f"{CA_KEY}: {self.choice!r}; allowed: an absolute path, or `{MAKE}`.")
        try:
            if path.stat().st_mode & 0o077:
                mode = stat.S_IMODE(path.stat().st_mode)
                raise RunError(
                    f"{CA_KEY}: {path} is open to others (mode {mode:04o}); allowed: 0400. chmod 0400 {path}"
                )
            return path.read_bytes()
        except OSError as error:
            raise RunError(f"{CA_KEY}: {path}: {error.strerror}; allowed: a file that this user may read.") from None

    def _made(self, makes: bool) -> bytes | None:
        """Return the key of the CA in the secrets directory; make key and certificate once, the key first."""
        try:
            has_key, has_certificate = self.secrets.has(CA_KEY), os.path.lexists(self.ca_file)
            if has_certificate and not has_key:
                what = f"{self.ca_file} has a CA, and there is no secret {CA_KEY} with its key"
                raise RunError(f"{CA_KEY}: {what}. Name the key of this CA, or remove the file.")
            if not (has_key and has_certificate) and not makes:
                return None
            key = self.secrets.keep(CA_KEY, bmc_authority.new_key)
            if not has_certificate:
                name = f"{self.cluster.name} BMC CA"
                text = bmc_authority.new_certificate(key, name, self.cluster.site or self.cluster.name)
                Path(self.ca_file).parent.mkdir(parents=True, exist_ok=True)
                write_new(Path(self.ca_file), text, 0o644)
        except OSError as error:
            raise RunError(f"provision.bmc.ca: {error.filename}: {error.strerror}. Let this user write it.") from None
        except SecretError as error:
            raise RunError(f"{CA_KEY}: {error}") from None
        return key
