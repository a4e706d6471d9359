# SPDX-License-Identifier: GPL-3.0-or-later
"""Insert and eject virtual media, and read them back."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any
from urllib.parse import urlsplit

from .client import Answer, Client
from .errors import CUT, TIMEOUT, UNSUPPORTED, BmcError
from .machine import Machine, Slot
from .machine_resources import slot_of
from .read_back import Change, not_taken, write_until_taken
from .resources.dialects import Dialect
from .tasks import finished

_REFUSED_SLOT = (400, 403, 404, 405, 501)
_EXTRA = ("Inserted", "WriteProtected")
_PATCH = "patch"


def insert_media(client: Client, machine: Machine, image: str) -> Change:
    """Insert the image at a URL into a slot for CDs. Another medium in the slot is ejected first.

    Slots that refuse, as those for the console do, are skipped. Raises BmcError: kind unsupported without a slot, not-taken if the image
    does not show.
    """
    slots = [one for one in machine.slots if one.is_optical]
    if not slots:
        raise client.error(UNSUPPORTED, "no slot of virtual media for CDs", "Set another `boot.method` in the profile.")
    current = [_read(client, one) for one in slots]
    for slot in current:
        if _has(slot, image):
            return Change(False, image, slot.image, slot.path)
    first = current[0]
    if client.read_only:
        return Change(True, image, first.image, first.path)
    refusal: BmcError | None = None
    for slot in current:
        try:
            return _insert(client, slot, image, machine.dialect)
        except BmcError as error:
            if error.status not in _REFUSED_SLOT:
                raise
            refusal = error
    raise refusal or client.error(UNSUPPORTED, "no slot of virtual media took the image", "Read the log of the BMC.")


def eject_media(client: Client, machine: Machine, image: str = "") -> Change:
    """Eject all media of the slots for CDs; with `image`, only that one. Raises BmcError: kind not-taken if a medium remains."""
    slots = [_read(client, one) for one in machine.slots if one.is_optical]
    full = [one for one in slots if one.is_inserted and (not image or _has(one, image))]
    for slot in full:
        if not client.read_only:
            _eject(client, slot, machine.dialect)
    path = full[0].path if full else (slots[0].path if slots else "")
    return Change(bool(full), "no medium", ", ".join(one.image for one in full) or "no medium", path)


def _insert(client: Client, slot: Slot, image: str, dialect: Dialect) -> Change:
    before = slot.image
    if slot.is_inserted:
        slot = _eject(client, slot, dialect)
    last = slot

    def write() -> Answer:
        return _write_image(client, last, image, dialect)

    def read() -> Slot:
        nonlocal last
        last = _read(client, slot)
        return last

    found, messages = write_until_taken(client, write, read, lambda one: _has(one, image))
    if not _has(found, image):
        raise not_taken(client, "the medium", slot.path, image, _shown(found), messages)
    return Change(True, image, before, slot.path)


def _write_image(client: Client, slot: Slot, image: str, dialect: Dialect) -> Answer:
    if dialect.media_insert == _PATCH:
        return finished(client, client.patch(slot.path, {"Image": image, "Inserted": True}, slot.etag))
    if not slot.insert_path:
        raise _without_action(client, slot, "InsertMedia")
    body: dict[str, Any] = {"Image": image, "Inserted": True, "WriteProtected": True}
    try:
        return _post(client, slot.insert_path, body)
    except BmcError as error:
        # Some BMCs accept only Image, and the other two are the defaults.
        names = {one for message in error.messages for one in message.args}
        if error.status != 400 or not any(extra in one for one in names for extra in _EXTRA):
            raise
        return _post(client, slot.insert_path, {"Image": image})


def _eject(client: Client, slot: Slot, dialect: Dialect) -> Slot:
    def write() -> Answer:
        if dialect.media_insert == _PATCH:
            return finished(client, client.patch(slot.path, {"Image": None, "Inserted": False}))
        if not slot.eject_path:
            raise _without_action(client, slot, "EjectMedia")
        return _post(client, slot.eject_path, {})

    settle_s = max(float(dialect.media_settle), client.bmc.limits.settle_s)
    found, messages = write_until_taken(
        client, write, lambda: _read(client, slot), lambda one: not one.is_inserted, seconds=settle_s
    )
    if found.is_inserted:
        raise not_taken(client, "the end of the medium", slot.path, "no medium", _shown(found), messages)
    return found


def _without_action(client: Client, slot: Slot, action: str) -> BmcError:
    return client.error(
        UNSUPPORTED, f"the slot has no action {action}", "Set another `boot.method` in the profile.", path=slot.path
    )


def _post(client: Client, path: str, body: Mapping[str, Any]) -> Answer:
    """Call an action of a slot. If its answer is lost, the slot shows whether the BMC obeyed."""
    try:
        return finished(client, client.post(path, body))
    except BmcError as error:
        if error.kind not in (CUT, TIMEOUT):
            raise
        return Answer(path, 0, {})


def _read(client: Client, slot: Slot) -> Slot:
    return slot_of(client.get(slot.path), slot.path)


def _has(slot: Slot, image: str) -> bool:
    """Return whether a slot shows an image: by its URL, or by its file name if the BMC keeps only that."""
    if not slot.is_inserted:
        return False
    name = urlsplit(image).path.rpartition("/")[2]
    return slot.image == image or (bool(name) and slot.image in ("", name) and slot.image_name == name)


def _shown(slot: Slot) -> str:
    return (slot.image or slot.image_name or "a medium without name") if slot.is_inserted else "no medium"
