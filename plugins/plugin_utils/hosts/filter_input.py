# SPDX-License-Identifier: GPL-3.0-or-later
"""Read the cluster file for filters, and turn mistakes into a filter's error."""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping
from functools import lru_cache
from typing import TypeVar

from ansible.errors import AnsibleFilterError

from ..cluster import Cluster, ClusterFileError, load
from ..plain.plain_inventory import PlainInventoryError, from_data, plain_cluster

T = TypeVar("T")


def cluster_of(path: object, name: str) -> Cluster:
    """Return the cluster for the filter `name`: of the path of a cluster file, or of what the lookup plain_inventory returns."""
    if isinstance(path, Mapping):
        return _plain(json.dumps(path), name)
    if not isinstance(path, str):
        raise AnsibleFilterError(
            f"{name} takes the path of a cluster file, such as bedplate_cluster_file, not {path!r}"
        )
    try:
        return load(str(path))
    except ClusterFileError as error:
        raise AnsibleFilterError(f"{name}: {error}") from None


@lru_cache(maxsize=4)
def _plain(data: str, name: str) -> Cluster:
    try:
        return plain_cluster(from_data(json.loads(data)))
    except (PlainInventoryError, TypeError) as error:
        raise AnsibleFilterError(f"{name}: {error}") from None


def role_result(path: object, name: str, work: Callable[[Cluster], T]) -> T:
    """Return the part of a role on a host: the result of `work` on the cluster. Its mistakes are an error of the filter `name`."""
    cluster = cluster_of(path, name)
    try:
        return work(cluster)
    except (KeyError, ValueError) as error:
        raise AnsibleFilterError(f"{name}: {error.args[0]}") from None
