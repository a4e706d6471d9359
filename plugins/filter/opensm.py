# SPDX-License-Identifier: GPL-3.0-or-later
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
"""The subnet managers of the cluster file; documented one by one in the .yml files beside this one."""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterator, Mapping
from contextlib import contextmanager
from typing import Any

from ansible.errors import AnsibleFilterError

from ansible_collections.bedplate.cluster.plugins.module_utils.common.finding import ERROR, to_json
from ansible_collections.bedplate.cluster.plugins.plugin_utils.fabric.opensm import managers
from ansible_collections.bedplate.cluster.plugins.plugin_utils.fabric.report.finding_table import table
from ansible_collections.bedplate.cluster.plugins.plugin_utils.hosts.filter_input import cluster_of
from ansible_collections.bedplate.cluster.plugins.plugin_utils.verify import opensm_readback

Choices = Mapping[str, Any]


@contextmanager
def _opensm_filter_error(name: str) -> Iterator[None]:
    """Turn the mistakes of a plan or a choice into the filter's error."""
    try:
        yield
    except ValueError as error:
        raise AnsibleFilterError(f"{name}: {error}") from None


def opensm_files(path: object, host: str, choices: Choices | None = None) -> list[dict[str, Any]]:
    """Return OpenSM's files of a host, as entries of bedplate.cluster.files."""
    cluster = cluster_of(path, "opensm_files")
    with _opensm_filter_error("opensm_files"):
        return managers.files(cluster, host, choices or {})


def opensm_units(
    path: object,
    host: str,
    choices: Choices | None = None,
    drop_ins: Mapping[str, str] | None = None,
    enabled: Collection[str] = (),
) -> list[dict[str, Any]]:
    """Return the units of a host, as bedplate.cluster.units takes them."""
    cluster = cluster_of(path, "opensm_units")
    with _opensm_filter_error("opensm_units"):
        return managers.units(cluster, host, choices or {}, drop_ins or {}, enabled)


def opensm_proof_digest(path: object, choices: Choices | None = None) -> str:
    """Return the digest of what is proved before OpenSM's files may land."""
    cluster = cluster_of(path, "opensm_proof_digest")
    with _opensm_filter_error("opensm_proof_digest"):
        return managers.proof_digest(cluster, choices or {})


def opensm_facts_request(path: object, host: str, choices: Choices | None = None) -> list[dict[str, Any]]:
    """Return what to read on a host."""
    cluster = cluster_of(path, "opensm_facts_request")
    with _opensm_filter_error("opensm_facts_request"):
        return managers.facts_request(cluster, host, choices or {})


def opensm_verdict(path: object, facts: Mapping[str, Any], choices: Choices | None = None) -> dict[str, Any]:
    """Return the comparison of the facts of hosts with the plan."""
    cluster = cluster_of(path, "opensm_verdict")
    with _opensm_filter_error("opensm_verdict"):
        listed, summary = opensm_readback.compared(cluster, facts, choices or {})
    return {
        "failed": any(one.severity == ERROR for one in listed),
        "summary": summary,
        "table": table(listed, summary),
        "findings": to_json(listed),
    }


class FilterModule:
    """The filters."""

    def filters(self) -> dict[str, Callable[..., object]]:
        """Return filter name -> function."""
        return {
            "opensm_files": opensm_files,
            "opensm_units": opensm_units,
            "opensm_proof_digest": opensm_proof_digest,
            "opensm_facts_request": opensm_facts_request,
            "opensm_verdict": opensm_verdict,
        }
