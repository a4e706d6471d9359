# SPDX-License-Identifier: GPL-3.0-or-later
"""Read values, links and collections of Redfish resources through a reader, which is a live BMC or a tree on disk."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from typing import Any

# Path of a resource -> the resource. Raises LookupError where the BMC has no resource at this path.
Get = Callable[[str], Mapping[str, Any]]
Resource = Mapping[str, Any]

ROOT = "/redfish/v1/"
_ID, _MEMBERS, _NEXT = "@odata.id", "Members", "Members@odata.nextLink"
# A collection is read to at most this many pages: some BMCs link the last page to itself.
_MOST_PAGES = 100


class MissingResourceError(LookupError):
    """Report that a BMC has no resource at a path."""


def value(resource: Resource, at: str) -> Any:
    """Return the value at a path of keys with slashes between them; None if a key is missing. A number is an index of a list.

    >>> value({"Links": {"ManagedBy": [{"@odata.id": "/m"}]}}, "Links/ManagedBy/0/@odata.id"), value({}, "Boot/BootOrder")
    ('/m', None)
    """
    found: Any = resource
    for key in at.split("/"):
        if isinstance(found, Mapping):
            found = found.get(key)
        elif isinstance(found, list) and key.isdigit() and int(key) < len(found):
            found = found[int(key)]
        else:
            return None
    return found


def link(resource: Resource, at: str) -> str:
    """Return the path that the resource links to at these keys, "" without a link.

    >>> link({"Bios": {"@odata.id": "/redfish/v1/systems/1/bios"}}, "Bios"), link({}, "Bios")
    ('/redfish/v1/systems/1/bios', '')
    """
    return path_of(mapping(value(resource, at)))


def mapping(found: Any) -> Mapping[str, Any]:
    """Return an object as it is, and an empty one for a value of another type, which BMCs send now and then."""
    return found if isinstance(found, Mapping) else {}


def mappings(found: Any) -> list[Mapping[str, Any]]:
    """Return the objects in a list; values of other types are left out, and so is a value that is not a list."""
    return [one for one in found if isinstance(one, Mapping)] if isinstance(found, list) else []


def texts(found: Any) -> list[str]:
    """Return the texts and numbers in a list as texts; an empty list for a value that is not a list."""
    return [str(one) for one in found if isinstance(one, (str, int, float))] if isinstance(found, list) else []


def path_of(resource: Resource) -> str:
    """Return the path that a resource states for itself, "" if it states none."""
    found = resource.get(_ID)
    return found if isinstance(found, str) else ""


def same_path(one: str, two: str) -> bool:
    """Return whether two paths name one resource: letter case and a slash at the end do not count.

    >>> same_path("/redfish/v1/systems/1/bios/", "/redfish/v1/Systems/1/Bios")
    True
    """
    return one.rstrip("/").lower() == two.rstrip("/").lower()


def optional(get: Get, path: str) -> Resource:
    """Return the resource at a path; an empty one for the path "", and for a path that the BMC does not have."""
    if not path:
        return {}
    try:
        return get(path)
    except LookupError:
        return {}


def members(get: Get, path: str) -> list[Resource]:
    """Return the members of a collection and of its further pages; an empty list if the BMC does not have the collection.

    A member that the collection has in full is not read again. A member that the BMC lists but does not have is left out.
    """
    return list(_members(get, path))


def _members(get: Get, path: str) -> Iterator[Resource]:
    seen: set[str] = set()
    while path and path not in seen and len(seen) < _MOST_PAGES:
        seen.add(path)
        page = optional(get, path)
        for member in mappings(page.get(_MEMBERS)):
            resource = member if len(member) > 1 else optional(get, path_of(member))
            if resource:
                yield resource
        following = page.get(_NEXT)
        path = following if isinstance(following, str) else ""
