# SPDX-License-Identifier: GPL-3.0-or-later
"""Check the MIG split of a profile's GPUs against the model, and derive Slurm's part."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any

from ..gpu_stack import mig_profiles
from .model import Gpus, Profile
from .schema.fields import Mistakes, Path

Layout = Mapping[str, int]


def with_mig(
    profiles: Mapping[str, Profile],
    data: Mapping[str, Any],
    mistakes: Mistakes,
    table: mig_profiles.MigTable | None = None,
) -> dict[str, Profile]:
    """Return the profiles with the layout of each GPU; what cannot be on these GPUs, or in Slurm, is a mistake."""
    found = dict(profiles)
    for name, profile in profiles.items():
        given = (data["profiles"][name]["gpus"] or {}).get("mig") or []
        gpus = profile.gpus
        if given and gpus is not None and gpus.count:
            types = data["profiles"][name]["gpus"]["mig_types"] or {}
            check = _Check(
                profile, gpus, [one or {} for one in given], types, mistakes, table or mig_profiles.default()
            )
            layouts = check.layouts()
            found[name] = replace(profile, gpus=replace(gpus, mig=layouts, mig_types=tuple(types.items())))
    return found


class _Check:
    def __init__(
        self,
        profile: Profile,
        gpus: Gpus,
        given: list[Layout],
        types: Layout | Mapping[str, str],
        mistakes: Mistakes,
        table: mig_profiles.MigTable,
    ) -> None:
        self.gpus, self.given, self.types, self.mistakes, self.table = gpus, given, types, mistakes, table
        self.path: Path = ("profiles", profile.name, "gpus")
        stack = profile.gpu_stack
        self.model = stack.model if stack and stack.model else gpus.model

    def layouts(self) -> tuple[tuple[str, ...], ...]:
        """Return the profiles on each GPU, in the order of creation."""
        split = any(self.given)
        if split and self._model() and self._known():
            self._fit()
        if split and self.gpus.detect != "nvml":
            self._detect()
        if len(self.given) not in (1, self.gpus.count):
            text = f"has {len(self.given)} layouts, and 'count' is {self.gpus.count}: one layout for each GPU, or one for all."
            self.mistakes.add((*self.path, "mig"), text)
        self._names()
        each = self.given * self.gpus.count if len(self.given) == 1 else self.given
        return tuple(tuple(mig_profiles.in_order(layout)) for layout in each)

    def _where(self, number: int, profile: str = "") -> Path:
        base: Path = (*self.path, "mig")
        place = (*base, number) if (*base, number) in self.mistakes.lines else base
        return (*place, profile) if profile else place

    def _detect(self) -> None:
        self.mistakes.add(
            (*self.path, "detect"),
            f"{self.gpus.detect!r} excludes `mig`: the driver chooses the device files of MIG instances when it makes them, and "
            "of Slurm's AutoDetect only nvml finds them. Allowed: `detect: nvml`, with a slurmd that is built with NVML; or no `mig`.",
        )

    def _model(self) -> bool:
        if self.table.of_model(self.model):
            return True
        known = ", ".join(dict.fromkeys(card.model for card in self.table.cards))
        why = "has no MIG" if self.model in self.table.without else "has no MIG profiles in bedplate's table"
        text = f"model {self.model!r} {why}. Models with MIG are: {known}; `gpu_stack.model` maps a name of yours to a model."
        self.mistakes.add((*self.path, "mig"), text)
        return False

    def _known(self) -> bool:
        cards = self.table.of_model(self.model)
        known = list(dict.fromkeys(name for card in cards for name in card.profiles))
        wrong = [(number, name) for number, layout in enumerate(self.given) for name in layout if name not in known]
        for number, name in wrong:
            self.mistakes.unknown(self._where(number, name), f"MIG profile of {self.model}", name, known)
        return not wrong

    def _fit(self) -> None:
        cards = self.table.of_model(self.model)
        fitting = [card for card in cards if all(card.fits(layout) for layout in self.given)]
        if fitting:
            return
        alone = [(number, one) for number, one in enumerate(self.given) if not any(card.fits(one) for card in cards)]
        for number, layout in alone:
            text = ", ".join(f"{count} of {name}" for name, count in layout.items())
            most = "; ".join(f"{card.name}: {card.examples()}" for card in cards)
            self.mistakes.add(self._where(number), f"{text} do not fit on one GPU. The most of each alone: {most}.")
        if not alone:
            names = " and ".join(card.name for card in cards)
            text = f"some of these layouts are of {names}, and the GPUs of a node are alike: no one of them takes all layouts."
            self.mistakes.add((*self.path, "mig"), text)

    def _names(self) -> None:
        used = list(dict.fromkeys(name for layout in self.given for name in layout))
        for name in self.types:
            if name not in used:
                self.mistakes.unknown((*self.path, "mig_types", name), "profile of `mig`", name, used)
        shortest = min((len(self.types.get(name) or mig_profiles.gres_type(name)) for name in used), default=0)  # type: ignore[arg-type]
        if used and not all(self.given) and len(self.gpus.model) >= shortest:
            self.mistakes.add(
                (*self.path, "model"),
                f"{self.gpus.model!r} is as long as the name of a MIG profile, and slurmd compares the longest name first: it would take "
                f"instances for whole GPUs. Choose a name of less than {shortest} letters, with `gpu_stack.model` to say what it is.",
            )


def devices(gpus: Gpus) -> dict[str, int]:
    """Return Slurm's GRES types with their number on a node: whole GPUs by model, instances by profile.

    >>> devices(Gpus("h100", 2, (), (), "nvml", (("3g.40gb", "1g.10gb+me"), ())))
    {'h100': 1, '3g.40gb': 1, '1g.10gb': 1}
    """
    if not gpus.mig:
        return {gpus.model: gpus.count}
    names, found = dict(gpus.mig_types), dict[str, int]()
    if whole := sum(not layout for layout in gpus.mig):
        found[gpus.model] = whole
    for profile in mig_profiles.in_order(_counted(gpus.mig)):
        kind = names.get(profile) or mig_profiles.gres_type(profile)
        found[kind] = found.get(kind, 0) + 1
    return found


def _counted(layouts: Sequence[Sequence[str]]) -> dict[str, int]:
    found: dict[str, int] = {}
    for layout in layouts:
        for profile in layout:
            found[profile] = found.get(profile, 0) + 1
    return found


def types(gpus: Gpus) -> list[str]:
    """Return the GRES types of MIG instances alone."""
    return [kind for kind in devices(gpus) if kind != gpus.model] if gpus.mig else []
