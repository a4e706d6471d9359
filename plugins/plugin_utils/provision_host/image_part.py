# SPDX-License-Identifier: GPL-3.0-or-later
"""Decide which images the provision host builds or copies: the values and steps of roles/image."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from dataclasses import fields
from pathlib import Path
from typing import Any

from ansible_collections.bedplate.cluster.plugins.module_utils.common.text import did_you_mean
from ansible_collections.bedplate.cluster.plugins.module_utils.image.build_image import PROGRAMS
from ansible_collections.bedplate.cluster.plugins.module_utils.image.recipe import Recipe

from ..cluster import Cluster
from ..cluster.model import Image
from ..parts.decision import Decision, Step
from .provision_part import DIRECTORY, INSTALLER

_PART = "image"
_NAME = re.compile(r"[A-Za-z0-9][A-Za-z0-9._-]*")
# Words of the kernel are in a command line of a shell while the image is built.
_TEXT = re.compile(r"[^'\"\\\n$`]*")
_KINDS = {str: "text without quotes", tuple: "a list of texts", int: "a whole number"}
_TYPES: dict[str, type] = {one.name: type(one.default) for one in fields(Recipe)}


def decide(cluster: Cluster, host: str, choices: Mapping[str, Any]) -> Decision | None:
    """Return the decision for a host; None for a host other than that of the section `provision`.

    `choices` are the role's variables by what is behind `image_`. ValueError: what of them cannot be.
    """
    stated = cluster.provision
    if stated is None or stated.host != host:
        return None
    if problems := [*mistakes(choices), *_without_boot(cluster, choices)]:
        raise ValueError("\n".join(problems))
    recipes, images = choices["recipes"], cluster.images
    # A site's image is installed by the kernel of a built one, so that one is first.
    steps = [_build(name, recipe, images.get(name), cluster, choices) for name, recipe in recipes.items()]
    steps += [_copy(one, cluster, choices) for name, one in images.items() if name not in recipes]
    packages = sorted({"zstd", "minisign", *(PROGRAMS.values() if recipes else ())})
    digests = {name: one.sha256 for name, one in images.items()}
    expected = {"directory": DIRECTORY, "images": digests, "public_key": choices["public_key"]}
    return Decision({_PART: {"packages": packages}}, {_PART: expected}, {"images": steps})


def mistakes(choices: Mapping[str, Any]) -> Iterator[str]:
    """Yield the mistakes in the role's variables that its argument spec cannot name."""
    for name, recipe in choices["recipes"].items():
        place = f"image_recipes.{name}"
        if not _NAME.fullmatch(str(name)):
            yield f"{place}: not a valid name; allowed: letters, digits and . _ -"
        if not isinstance(recipe, Mapping):
            yield f"{place}: {recipe!r}; allowed: a mapping with {', '.join(_TYPES)}"
            continue
        for key, value in recipe.items():
            yield from _value_mistakes(f"{place}.{key}", str(key), value)
    for name, other in choices["boots"].items():
        if not _NAME.fullmatch(str(other)) or other == name:
            yield f"image_boots.{name}: {other!r}; allowed: the name of another image, which has a recipe"
    for key in ("key", "public_key"):
        if choices[key] and not str(choices[key]).startswith("/"):
            yield f"image_{key}: {choices[key]!r}; allowed: an absolute path on the provision host"


def _value_mistakes(place: str, key: str, value: Any) -> Iterator[str]:
    if key not in _TYPES:
        hint = did_you_mean(key, list(_TYPES), lead="; did")
        yield f"{place}: the key is unknown{hint}; allowed: {', '.join(_TYPES)}"
        return
    kind = _TYPES[key]
    texts = value if kind is tuple and isinstance(value, list) else [value]
    is_good = not isinstance(value, bool) and isinstance(value, list if kind is tuple else kind)
    is_text = kind is int or all(isinstance(one, str) and _TEXT.fullmatch(one) for one in texts)
    if not is_good or not is_text:
        yield f"{place}: {value!r}; allowed: {_KINDS[kind]}"


def _without_boot(cluster: Cluster, choices: Mapping[str, Any]) -> Iterator[str]:
    """Yield the images of the cluster file that no kernel and initramfs would install."""
    for name in cluster.images:
        if name not in choices["recipes"] and name not in choices["boots"]:
            allowed = "a recipe in image_recipes, or in image_boots the image whose kernel and initramfs install it"
            yield f"image {name}: it has no recipe, and nothing installs it; allowed: {allowed}"


def _folders(name: str, choices: Mapping[str, Any]) -> dict[str, Any]:
    key = {"key": choices["key"]} if choices["key"] else {}
    return {"folder": f"{DIRECTORY}/images/{name}", "served": f"{DIRECTORY}/served", **key}


def _build(
    name: str, recipe: Mapping[str, Any], image: Image | None, cluster: Cluster, choices: Mapping[str, Any]
) -> Step:
    stated = {"sha256": image.sha256, "stated_in": _line(cluster, image)} if image else {}
    arguments = {"recipe": dict(recipe), "installer": INSTALLER, **_folders(name, choices), **stated}
    return Step("bedplate.cluster.node_image", arguments, phases=["files"])


def _copy(image: Image, cluster: Cluster, choices: Mapping[str, Any]) -> Step:
    arguments = {
        "source": image.file,
        "sha256": image.sha256,
        "stated_in": _line(cluster, image),
        "boot": f"{DIRECTORY}/images/{choices['boots'][image.name]}/boot",
        **_folders(image.name, choices),
    }
    return Step("bedplate.cluster.site_image", arguments, phases=["files"])


def _line(cluster: Cluster, image: Image) -> str:
    """Return the place of an image's SHA-256: file, line and key."""
    try:
        lines = Path(cluster.path).read_text(encoding="utf-8").splitlines()
    except OSError:
        lines = []
    number = next((number for number, text in enumerate(lines, 1) if image.sha256 in text), 0)
    return f"{cluster.path}{f':{number}' if number else ''}: images.{image.name}.sha256"
