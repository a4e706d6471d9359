# SPDX-License-Identifier: GPL-3.0-or-later
"""Check that a set of GPU software exists for the nodes of each profile."""

from __future__ import annotations

from collections.abc import Container, Iterator, Mapping
from dataclasses import replace
from pathlib import Path as FilePath
from typing import Any

from ..gpu_lock import lock_document, locked_stack
from ..gpu_lock.lock_document import UPDATE, GpuLock, LockError
from ..gpu_rows import rows_file
from ..gpu_stack import stack_table
from ..gpu_stack.apt_repositories import of_stack
from ..gpu_stack.resolve import Request, Stack, StackError
from ..gpu_stack.settings import gpu_settings
from .model import Cluster, GpuMirror, GpuStack, Profile
from .package_access import refuse_password
from .schema.fields import Mistakes, Path
from .schema.gpu_sections import GPU_STACK
from .schema.late_mistakes import MistakeCollector

_NEEDED = ("os", "source", "driver")
_ARMOR = "-----BEGIN PGP PUBLIC KEY BLOCK-----"


def with_gpu_stacks(
    profiles: Mapping[str, Profile], data: Mapping[str, Any], file: str, mistakes: Mistakes
) -> dict[str, Profile]:
    """Return the profiles with what their nodes get; a set that cannot be for the GPUs of one is a mistake.

    What depends on versions is not checked here, so that a command may write or update the lock: `version_mistakes` has it.
    """
    found = dict(profiles)
    for name, profile in profiles.items():
        own = (data["profiles"].get(name) or {}).get("gpu_stack")
        if own is not None and profile.gpus is None:
            mistakes.add(
                ("profiles", name, "gpu_stack"), "this profile has no GPUs. Give it `gpus`, or remove `gpu_stack`."
            )
        elif profile.gpus is not None and (own is not None or data["gpu_stack"] is not None):
            found[name] = with_stack(profile, own, data["gpu_stack"], file, mistakes, locked_stack.VERSION_RULES)
    if data["gpu_stack"] is not None and not any(profile.gpus for profile in profiles.values()):
        _keys_and_places(data["gpu_stack"], _places(("gpu_stack",)), file, mistakes)
    return found


def with_settings(profiles: Mapping[str, Profile], data: Mapping[str, Any], mistakes: Mistakes) -> dict[str, Profile]:
    """Return the profiles with the settings of their GPUs; a value that these GPUs do not take is a mistake."""
    found = dict(profiles)
    for name, profile in profiles.items():
        settings = gpu_settings.stated((data["profiles"][name]["gpus"] or {}).get("settings") or {})
        if profile.gpus is None or not settings:
            continue
        model = (profile.gpu_stack and profile.gpu_stack.model) or profile.gpus.model
        for key, text in gpu_settings.mistakes(model, settings):
            mistakes.add(("profiles", name, "gpus", "settings", key), text)
        found[name] = replace(profile, gpus=replace(profile.gpus, settings=tuple(settings.items())))
    return found


def with_stack(
    profile: Profile,
    own: Mapping[str, Any] | None,
    common: Mapping[str, Any] | None,
    file: str,
    mistakes: Mistakes,
    later: Container[str] = (),
) -> Profile:
    """Return a profile with its own GPU software merged over the common one; both have the keys of GPU_STACK.

    Key files are relative to the directory of `file`, and its lock is beside it. `later` are rules that are not checked now.
    """
    merged = dict(common or dict.fromkeys(own or {}))
    places = _places(("gpu_stack",))
    mine: Path = ("profiles", profile.name, "gpu_stack")
    for key, value in (own or {}).items():
        # Also one that says that there is to be none of it, such as an empty list.
        if value or (*mine, key) in mistakes.lines:
            merged[key], places[key] = value, (*mine, key)
    if own is not None:
        lacking = [key for key in _NEEDED if not merged.get(key) and (*places[key],) not in mistakes.lines]
        if common is None and lacking:
            text = f"{', '.join(lacking)} missing, and there is no `gpu_stack` for the whole cluster that says it."
            mistakes.add(mine, text)
    keys, mirror = _keys_and_places(merged, places, file, mistakes)
    if not all(merged.get(key) for key in _NEEDED):
        return profile  # which are mistakes already
    wanted = GpuStack(
        os=merged["os"],
        source=merged["source"],
        driver=merged["driver"],
        module=merged["module"] or "",
        platform=merged["platform"] or "",
        model=merged["model"] or "",
        kernel=merged["kernel"] or "",
        cuda=tuple(one for one in merged["cuda"] or () if one),
        toolkit=merged["container_toolkit"] or "",
        dcgm=merged["dcgm"] or "",
        nccl=merged["nccl"] or "",
        module_options=tuple((merged["module_options"] or {}).items()),
        mirror=mirror,
        urls=tuple((merged["urls"] or {}).items()),
        keys=tuple(keys.items()),
        foreign_sources=merged["foreign_sources"] or "vendor",
        dcgm_proprietary=merged["dcgm_proprietary"] is not False,
        packages=tuple(one for one in merged["packages"] or () if one),
        gpudirect=tuple(one for one in merged["gpudirect"] or () if one),
        lock=_lock_of(file),
        rows=rows_file.usable_rows(file),
        fingerprints=tuple(
            (name, tuple(filter(None, found))) for name, found in (merged["fingerprints"] or {}).items()
        ),
    )
    full = replace(profile, gpu_stack=wanted)
    _check(full, wanted, mine if own is not None else ("gpu_stack",), mistakes, later)
    return full


def _places(path: Path) -> dict[str, Path]:
    """Return where the file says each key."""
    return {key: (*path, key) for key in GPU_STACK}


def _keys_and_places(
    data: Mapping[str, Any], places: Mapping[str, Path], file: str, mistakes: Mistakes
) -> tuple[dict[str, str], GpuMirror | None]:
    """Return paths of keys by repository, and the mirror; unknown repositories are mistakes."""
    known = sorted({row.name for row in stack_table.default().repositories})
    for section in ("urls", "keys", "fingerprints"):
        for name in data.get(section) or {}:
            if name not in known:
                mistakes.unknown((*places[section], name), "repository", name, known)
    keys = {name: _place(path, file) for name, path in (data.get("keys") or {}).items()}
    for name in data.get("fingerprints") or {}:
        if name in known and name not in keys and not _is_wrong(name, mistakes):
            text = "no key is named for this repository, so there is nothing to compare. Name it in `keys`, or remove this."
            mistakes.add((*places["fingerprints"], name), text)
    for name, url in (data.get("urls") or {}).items():
        refuse_password((*places["urls"], name), url, mistakes)
    mirror = data.get("mirror")
    if mirror and mirror["url"]:
        refuse_password((*places["mirror"], "url"), mirror["url"], mistakes)
    if not mirror or not mirror["url"] or not mirror["key"]:
        return keys, None
    stated = tuple(filter(None, mirror["fingerprint"] or ()))
    return keys, GpuMirror(mirror["url"].rstrip("/"), _place(mirror["key"], file), stated)


def _place(path: str, file: str) -> str:
    return str(FilePath(file).resolve().parent / path)


def armored(path: str) -> str:
    """Return the armored public key in a file. ValueError: the mistake and its remedy."""
    try:
        text = FilePath(path).read_text(encoding="ascii")
    except FileNotFoundError:
        raise ValueError(f"there is no {path}; put the key there that signs the repository") from None
    except (OSError, ValueError) as error:
        raise ValueError(f"{path} cannot be read as an armored key: {error}") from None
    if not text.startswith(_ARMOR):
        raise ValueError(f"{path} does not begin with {_ARMOR}; `gpg --armor --export` writes such a file")
    return text


def version_mistakes(cluster: Cluster) -> list[str]:
    """Return a line for each mistake of the lock, and of sets that depend on its versions, or without a lock on the table's."""
    try:
        lock = lock_document.read(cluster.path)
    except LockError as error:
        return error.mistakes
    return mistakes_with(cluster, lock)


def mistakes_with(cluster: Cluster, lock: GpuLock | None, *, is_new: bool = False) -> list[str]:
    """Return a line for each mistake of the sets of profiles with the versions of a lock, without one with the table's.

    `is_new`: the lock is what the repositories have now, so the lines do not say to read them again.
    """
    wrong = MistakeCollector(cluster.path)
    for name, profile in cluster.profiles.items():
        try:
            if profile.gpu_stack and profile.gpus:
                stack_of(replace(profile.gpu_stack, lock=lock), profile)
        except StackError as error:
            for refusal in error.refusals:
                text = f"profile {name}: {refusal.text}{'' if is_new else _remedy(refusal.rule, lock)} [{refusal.rule}]"
                wrong.add(("profiles", name, "gpu_stack"), text, ("gpu_stack",))
    return wrong.lines()


def _remedy(rule: str, lock: GpuLock | None) -> str:
    """Return how to get versions that are not known."""
    if not rule.startswith("unknown-"):
        return ""
    if lock is None:
        return " No lock exists: playbooks/gpu_resolve.yml writes one, with all versions that the repositories have."
    return f" These are the versions of the lock; to read what the repositories have now: {UPDATE}."


def _lock_of(file: str) -> GpuLock | None:
    """Return the lock beside a file; None also for an unusable lock, which `version_mistakes` reports."""
    try:
        return lock_document.read(file)
    except LockError:
        return None


def _check(profile: Profile, wanted: GpuStack, path: Path, mistakes: Mistakes, later: Container[str]) -> None:
    try:
        stack = stack_of(wanted, profile)
    except StackError as error:
        for refusal in error.refusals:
            if refusal.rule not in later:
                mistakes.add(path, f"profile {profile.name}: {refusal.text} [{refusal.rule}]")
        return
    for name in (name for name in _without_key(wanted, stack) if not _is_wrong(name, mistakes)):
        mistakes.add(
            (*path, "keys"),
            f"no key for repository {name!r}, which profile {profile.name} needs: `keys: {{{name}: FILE}}`, the armored public key "
            "that its owner publishes. Nothing is installed from a repository whose origin is not proven.",
        )


def _is_wrong(repository: str, mistakes: Mistakes) -> bool:
    """Return whether the file states a key of a repository, and the value is a mistake."""
    ends = ("gpu_stack.keys", f"gpu_stack.keys.{repository}")
    return any(one.where.endswith(ends) for one in mistakes.found)


def _without_key(wanted: GpuStack, stack: Stack) -> Iterator[str]:
    if wanted.mirror is None:
        have = dict(wanted.keys)
        for row in of_stack(stack, wanted.os, wanted.source):
            if not row.keyring and row.name not in have:
                yield row.name


def request_of(wanted: GpuStack, profile: Profile) -> Request:
    """Return the request for the nodes of a profile with GPUs."""
    if profile.gpus is None:
        raise ValueError(f"profile {profile.name} has no GPUs")
    return Request(
        os=wanted.os,
        source=wanted.source,
        driver=wanted.driver,
        gpus=(wanted.model or profile.gpus.model,),
        gpu_count=profile.gpus.count,
        platform=wanted.platform,
        module=wanted.module,
        kernel=wanted.kernel,
        cuda=wanted.cuda,
        dcgm=wanted.dcgm,
        dcgm_proprietary=wanted.dcgm_proprietary,
        packages=wanted.packages,
        gpudirect=wanted.gpudirect,
        toolkit=wanted.toolkit,
        nccl=wanted.nccl,
    )


def stack_of(wanted: GpuStack, profile: Profile) -> Stack:
    """Return packages and versions for the nodes of a profile with GPUs; StackError has the reason for none."""
    return locked_stack.locked_stack(request_of(wanted, profile), wanted.lock, wanted.rows)
