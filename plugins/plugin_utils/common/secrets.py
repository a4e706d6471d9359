# SPDX-License-Identifier: GPL-3.0-or-later
"""The secrets directory of a cluster: one file each on the control node, outside git, made on first use."""

from __future__ import annotations

import contextlib
import os
import re
import secrets
import socket
import stat
import string
from collections.abc import Callable, Mapping
from pathlib import Path

from ansible_collections.bedplate.cluster.plugins.module_utils.common.command import run
from ansible_collections.bedplate.cluster.plugins.module_utils.common.files import write_new
from ansible_collections.bedplate.cluster.plugins.module_utils.primitives.files.manifest import digest

KINDS = ("password", "bytes")
BMC_FOLDER = "bmc/"
"""Secrets of BMCs are in a folder, one for each machine: bmc/gpu001."""
NAME = re.compile(rf"(?:[a-z0-9_]{{1,100}}|{BMC_FOLDER}[A-Za-z0-9][A-Za-z0-9.-]{{0,62}})\Z")
# No sign at all: such a password needs no quoting in a URL, in SQL, in a shell, in an ini file.
_ALPHABET = string.ascii_letters + string.digits
_LENGTH = {"password": 32, "bytes": 32}
# What some programs want of their secret, by the name roles give it.
# `_next` is the one that playbooks/turn_keys.yml puts in its place.
_KNOWN = {
    "munge_key": ("bytes", 1024),
    "munge_key_next": ("bytes", 1024),
    "jwt_key": ("bytes", 32),
    "jwt_key_next": ("bytes", 32),
}
# The fewest bytes: munged refuses a shorter key, and RFC 7518 a shorter one for HS256.
_LEAST = {
    "munge_key": (32, "munge"),
    "munge_key_next": (32, "munge"),
    "jwt_key": (32, "HS256"),
    "jwt_key_next": (32, "HS256"),
}
_LENGTHS = range(16, 65537)
MIRROR_KEY = "mirror_signing_key"
"""Name of the secret key that signs the package mirror."""


class SecretError(ValueError):
    """A secret that cannot be had, or a store that is not safe."""


class SecretStore:
    """The directory with the secrets of one cluster."""

    def __init__(self, directory: str | os.PathLike[str]) -> None:
        """Refuse a directory where the secrets would not be safe; make nothing yet."""
        self.directory = Path(directory).expanduser()
        if not self.directory.is_absolute():
            raise SecretError(
                f"bedplate_secrets_dir {str(directory)!r} is relative, so it would depend on where a command is run; "
                "allowed: an absolute path, or a path below ~/"
            )
        self._refuse_open_directory()
        self._refuse_git()

    def get(self, name: str, kind: str | None = None, length: int | None = None, create: bool = True) -> bytes:
        """Return a secret. A missing one is made, or with `create` false, replaced by a placeholder.

        The placeholder is the same every time and differs from every secret: check mode shows a change, as it must.
        """
        if not NAME.match(name):
            raise SecretError(f"secret {name!r}; allowed: a name of a-z, 0-9 and _, as munge_key, or bmc/NODE")
        path = self.directory / name
        try:
            data = self._read(path)
        except FileNotFoundError:
            kind, length = _shape(name, kind, length)
            if not create:
                return f"placeholder of the secret {name}, which a run without --check will make\n".encode()
            self._make(path, _generate(kind, length))
            data = self._read(path)
        if create:
            self._remember(name, digest(data))
        return data

    def known(self, name: str) -> list[str]:
        """Return the digests of all secrets of this name that this directory has had, the removed ones too.

        A node that has one of them may be given the next one. One that has another was set up from another directory.
        """
        try:
            return self._history(name).read_text(encoding="ascii").split()
        except FileNotFoundError:
            return []
        except (OSError, ValueError) as error:
            raise SecretError(f"{self._history(name)} cannot be read by {user_name()}: {error}") from error

    def refusal(self, name: str) -> str:
        """Return what to say on a node that has a secret which this directory has never had."""
        return (
            f"bedplate wrote this {name}, but not from the secrets directory {self.directory} of {user_name()} on "
            f"{socket.gethostname()}, which has never had it. So that directory was lost, or this cluster is run "
            "with another user, machine or bedplate_secrets_dir. Nothing was written: a new one would cut this machine off "
            f"from the rest of a running cluster. Restore the directory, or copy {name} into it from the machine that has it; "
            "or, to write a new one on purpose, run with -e bedplate_new_secrets=true"
        )

    def text(self, name: str, length: int | None = None, create: bool = True) -> str:
        """Return a secret for use inside a text, without a line end after it, which an editor may add."""
        if _KNOWN.get(name, ("password",))[0] == "bytes":
            raise no_text(name, str(self.directory / name), "random bytes")
        data = self.get(name, "password", length, create)
        return plain_text(name, data, str(self.directory / name))

    def has(self, name: str) -> bool:
        """Return whether a secret exists already."""
        return (self.directory / name).exists()

    def keep(self, name: str, make: Callable[[], bytes]) -> bytes:
        """Return a secret that only another program can make, as a signing key; `make` is called for the first one."""
        if not self.has(name):
            self._make(self.directory / name, make())
        return self.get(name)

    def _read(self, path: Path) -> bytes:
        try:
            status = path.stat()
            if status.st_mode & 0o077:
                raise SecretError(
                    f"{path} is open to others on this machine (mode {stat.S_IMODE(status.st_mode):04o}). Treat it as known: "
                    f"remove it, and the next run makes a new one; or, if no other user has an account here: chmod 0400 {path}"
                )
            data = path.read_bytes()
        except PermissionError as error:
            raise SecretError(f"{path} cannot be read by {user_name()}; run as the user who owns it") from error
        except (IsADirectoryError, NotADirectoryError) as error:
            raise SecretError(f"{path} is no file: {error.strerror}") from error
        if not data:
            raise SecretError(f"{path} is empty. Remove it, and the next run makes a new secret")
        return data

    def _history(self, name: str) -> Path:
        path = self.directory / name
        return path.with_name(f".{path.name}.known")

    def _remember(self, name: str, value: str) -> None:
        if value in self.known(name):
            return
        # One short write to the end is whole, whoever else writes; a line that comes twice means nothing. Who cannot write
        # here still has the secret; what is not noted only asks for bedplate_new_secrets when it is replaced one day.
        with contextlib.suppress(OSError):
            descriptor = os.open(self._history(name), os.O_WRONLY | os.O_CREAT | os.O_APPEND, 0o600)
            try:
                os.write(descriptor, f"{value}\n".encode())
            finally:
                os.close(descriptor)

    def _make(self, path: Path, data: bytes) -> None:
        """Write a secret: of many forks that do this at once one wins, and all read what the winner wrote."""
        try:
            self._make_directory(path.parent)
            write_new(path, data, 0o400)
        except OSError as error:
            raise SecretError(f"{path} cannot be made by {user_name()}: {error.strerror}") from error

    def _make_directory(self, directory: Path) -> None:
        missing = [path for path in (directory, *directory.parents) if not path.exists()]
        for path in reversed(missing):
            path.mkdir(mode=0o700, exist_ok=True)

    def _refuse_open_directory(self) -> None:
        try:
            mode = stat.S_IMODE(self.directory.stat().st_mode)
        except (FileNotFoundError, NotADirectoryError, PermissionError):
            return
        if mode & 0o077:
            raise SecretError(
                f"{self.directory}, the directory of the cluster's secrets, is open to others on this machine (mode {mode:04o}); "
                f"allowed: 0700. If no other user has read it: chmod 0700 {self.directory}"
            )

    def _refuse_git(self) -> None:
        # A name inside the directory: so a pattern that ends in a slash counts before the directory is there.
        tree, said = exposing_tree(self.directory.resolve() / "secret")
        if tree is not None:
            raise SecretError(
                f"{self.directory} is in the git work tree {tree} and {said}: the cluster's secrets would "
                "end up in a commit. Set bedplate_secrets_dir to a directory outside, or add it to .gitignore"
            )


def exposing_tree(file: Path) -> tuple[Path | None, str]:
    """Return the git work tree in which a file could be committed, and why; None without a tree, or if it ignores the file."""
    tree = next((path for path in file.parents if (path / ".git").exists()), None)
    if tree is None:
        return None, ""
    command = ["git", "-C", str(tree), "check-ignore", "--quiet", str(file)]
    # In a hook git points these variables at its own repository, which may be another one.
    done = run(command, 30.0, environment={name: None for name in os.environ if name.startswith("GIT_")})
    if done.code == 0:
        return None, ""
    said = (
        "git does not ignore it" if done.code == 1 else f"git cannot say whether it is ignored ({done.stderr.strip()})"
    )
    return tree, said


def git_mistake(file: Path) -> str:
    """Return the mistake about the place of a file with a secret, or "": it could be committed."""
    tree, said = exposing_tree(file.resolve())
    if tree is None:
        return ""
    return (
        f"{file}: is in the git work tree {tree}, and {said}, so the secret could be committed; allowed: a file outside, a file "
        "in .gitignore, or an encrypted file of ansible-vault"
    )


def size_mistake(name: str, data: bytes) -> str:
    """Return the mistake in the size of a key, or ""."""
    least, reader = _LEAST.get(name, (0, ""))
    if len(data) >= least:
        return ""
    return f"has {len(data)} bytes, and {reader} needs at least {least}. Give the whole key; for random bytes use base64 or file"


def plain_text(name: str, data: bytes, place: str) -> str:
    """Return a secret as text, without a line end after it. SecretError: it is binary."""
    try:
        return data.decode("utf-8").rstrip("\r\n")
    except UnicodeDecodeError as error:
        raise no_text(name, place, f"{len(data)} random bytes") from error


def no_text(name: str, place: str, what: str) -> SecretError:
    """Return the error for a secret that cannot be used inside a text."""
    return SecretError(
        f"secret {name}: {place} is for {what}, which are not text. Write it with "
        f"`secret: {name}` in an entry of bedplate.cluster.files"
    )


def default_directory(cluster: str) -> str:
    """Return where the secrets of a cluster are unless the user says otherwise."""
    if cluster in (".", "..") or "/" in cluster:
        raise SecretError(
            f"bedplate_cluster {cluster!r} is not the name of a cluster, so it cannot name a directory for its secrets"
        )
    # The specification of XDG: a relative path there is invalid and has no effect.
    state = os.environ.get("XDG_STATE_HOME", "")
    return f"{state if Path(state).is_absolute() else '~/.local/state'}/bedplate/{cluster}"


def directory_of(variables: Mapping[str, object]) -> Path:
    """Return where the secrets are, by the variables of a host (already templated)."""
    directory, cluster = variables.get("bedplate_secrets_dir"), variables.get("bedplate_cluster")
    if not directory and not cluster:
        raise SecretError(
            "the directory of the cluster's secrets is unknown: neither bedplate_secrets_dir nor bedplate_cluster (which the "
            "inventory plugin bedplate.cluster.racks sets) is defined for this host"
        )
    try:
        return Path(str(directory) if directory else default_directory(str(cluster))).expanduser()
    except RuntimeError:
        raise SecretError(
            "bedplate_secrets_dir: this user has no home directory. Set bedplate_secrets_dir to an absolute path, or give all secrets "
            "in bedplate_secrets"
        ) from None


def shape_mistakes(kind: object, length: object) -> list[str]:
    """Return the mistakes of a kind and a length as a user wrote them."""
    found = []
    if kind is not None and kind not in KINDS:
        found.append(f"kind {kind!r}; allowed: {', '.join(KINDS)}")
    if length is not None and (not isinstance(length, int) or isinstance(length, bool) or length not in _LENGTHS):
        found.append(f"length {length!r}; allowed: {_LENGTHS.start} to {_LENGTHS.stop - 1}")
    return found


def _shape(name: str, kind: str | None, length: int | None) -> tuple[str, int]:
    mistakes = shape_mistakes(kind, length)
    if mistakes:
        raise SecretError(f"secret {name}: {'; '.join(mistakes)}")
    known = _KNOWN.get(name, ("password", _LENGTH["password"]))
    kind = kind or known[0]
    return kind, length or (known[1] if kind == known[0] else _LENGTH[kind])


def _generate(kind: str, length: int) -> bytes:
    if kind == "bytes":
        return secrets.token_bytes(length)
    return "".join(secrets.choice(_ALPHABET) for _unused in range(length)).encode()


def user_name() -> str:
    """Return the user who runs this, for messages."""
    return os.environ.get("USER") or f"uid {os.getuid()}"
