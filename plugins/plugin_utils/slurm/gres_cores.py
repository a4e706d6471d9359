# SPDX-License-Identifier: GPL-3.0-or-later
"""The `Cores=` of each GPU in gres.conf.

What Slurm demands, by its source, src/interfaces/gres.c, at the tags slurm-22-05-8-1 to slurm-26-05-0-1:

* 22.05 to 24.05 take any cores that the node has. gres.conf(5) of 22.05 advises "to identify all cores on some socket".
* 24.11.0 refuses cores that are a part of a socket ("GRES core specification ... doesn't match socket boundaries"): slurmctld
  sets the node's state when it registers, `slurmd -G` does not say so. gres.conf(5): "all the cores in a socket must be specified
  together". Several whole sockets are fine.
* 25.11.0 takes the cores of one socket, or all cores of the node, nothing between.

A socket is what slurm.conf has as one: with SlurmdParameters=numa_node_as_socket it is a NUMA node.
"""

from __future__ import annotations

from ansible_collections.bedplate.cluster.plugins.module_utils.common.cpulists import fold, parse

WHOLE_SOCKETS, ONE_SOCKET = "24.11", "25.11"


def widen(cores: str, sockets: int, cores_per_socket: int, version: str) -> str:
    """Return core ids as a release of Slurm takes them, such as 24.11: those given, or all of the sockets that they are in.

    >>> widen("16-31", 2, 64, "24.05"), widen("16-31", 2, 64, "24.11")
    ('16-31', '0-63')
    >>> widen("0-15", 8, 8, "24.11"), widen("0-15", 8, 8, "25.11")
    ('0-15', '0-63')
    """
    ids = parse(cores)
    if version < WHOLE_SOCKETS or not ids or cores_per_socket < 1:
        return cores
    touched = sorted({core // cores_per_socket for core in ids})
    if version >= ONE_SOCKET and len(touched) > 1:
        touched = list(range(sockets))
    wide = fold(core for one in touched for core in range(one * cores_per_socket, (one + 1) * cores_per_socket))
    return cores if wide == fold(ids) else wide
