#!/usr/bin/python
# SPDX-License-Identifier: GPL-3.0-or-later
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
"""Arm, release and read the orders of machines on the provision host."""

from __future__ import annotations

DOCUMENTATION = r"""
module: provision_orders
short_description: Arm, release and read the orders of machines that are installed
version_added: 0.2.0
description:
  - Runs once on the provision host, for all nodes of a run.
  - An order is the permission for one machine to write one image to one disk, once.
  - The failure of one node is in its result, and does not fail the others.
  - A node with an open order gets no second order. Release the first one.
options:
  orders:
    description: Folder of the orders.
    type: path
    required: true
  served:
    description: Folder with C(images) and C(media), which the order server serves.
    type: path
    required: true
  boot:
    description: Folder with the boot files of the installer, as the build of the image wrote it. Needed to arm.
    type: path
    default: ""
  authority:
    description: Certificate of the CA of the order server, a PEM file. Needed to arm.
    type: path
    default: ""
  url:
    description: Address of the order server, C(https://HOST:PORT). Needed to arm.
    type: str
    default: ""
  network:
    description: >-
      Folder of bedplate-boot.service, which answers machines that boot from the network. Needed to arm machines with the methods C(http)
      and C(pxe).
    type: path
  words:
    description: Words for the kernel's command line of the installer, such as its console.
    type: str
    default: ""
  public_key:
    description: Public key of minisign, a file. With it, an image without a signature by its owner is refused.
    type: path
  window:
    description: How long an order can be claimed, in seconds.
    type: int
    default: 7200
  arm:
    description: >-
      The machines. Each has C(machine) (node, serial, mac, disk, wipe, address, gateway) and C(image) (the content of an image.json).
      C(method) is C(media), the default, C(http) or C(pxe); C(firmware) is C(UEFI), the default, or C(Legacy).
    type: list
    elements: dict
    default: []
  seeds:
    description: >-
      JSON with the seed of each machine, as node to absolute path to C(content) and C(mode). It is one text, since Ansible masks each value
      of a secret argument in all that a module returns, and a mode such as 0600 can be a part of the id of an order.
    type: str
    default: "{}"
  release:
    description: Ids of orders that are closed. Their media and seeds are removed.
    type: list
    elements: str
    default: []
  nodes:
    description: Nodes whose open orders are read.
    type: list
    elements: str
    default: []
author: The bedplate authors (!UNKNOWN)
attributes:
  check_mode: {support: full, description: It reads the states alone.}
"""

EXAMPLES = r"""
- name: Read the orders
  bedplate.cluster.provision_orders:
    orders: /var/lib/bedplate/provision/orders
    served: /var/lib/bedplate/provision/served
    nodes: [gpu001, gpu002]
"""

RETURN = r"""
armed: {description: 'Node to C(id) and C(medium), the path of the medium on the server: a secret.', type: dict, returned: always}
failed_nodes: {description: Node to the reason why it has no order., type: dict, returned: always}
states: {description: 'Node to the state of its open order: C(id), C(state), C(reason), C(at).', type: dict, returned: always}
"""

import json
from pathlib import Path

from ansible.module_utils.basic import AnsibleModule

from ansible_collections.bedplate.cluster.plugins.module_utils.provision import arming
from ansible_collections.bedplate.cluster.plugins.module_utils.provision.medium import MediumError
from ansible_collections.bedplate.cluster.plugins.module_utils.provision.network_boot import (
    MEDIA,
    UEFI,
    NetworkBoot,
    NetworkBootError,
)
from ansible_collections.bedplate.cluster.plugins.module_utils.provision.order_text import OrderError
from ansible_collections.bedplate.cluster.plugins.module_utils.provision.orders import RefusedError
from ansible_collections.bedplate.cluster.plugins.module_utils.provision.seed import SeedFile
from ansible_collections.bedplate.cluster.plugins.module_utils.provision.served_image import ImageError

_ERRORS = (OrderError, RefusedError, ImageError, MediumError, NetworkBootError)


def main() -> None:
    """Release, arm, and read the states."""
    module = AnsibleModule(
        argument_spec={
            "orders": {"type": "path", "required": True},
            "served": {"type": "path", "required": True},
            "boot": {"type": "path", "default": ""},
            "authority": {"type": "path", "default": ""},
            "url": {"type": "str", "default": ""},
            "network": {"type": "path"},
            "words": {"type": "str", "default": ""},
            "public_key": {"type": "path"},
            "window": {"type": "int", "default": 7200},
            "arm": {"type": "list", "elements": "dict", "default": []},
            # It has private keys.
            "seeds": {"type": "str", "default": "{}", "no_log": True},
            "release": {"type": "list", "elements": "str", "default": []},
            "nodes": {"type": "list", "elements": "str", "default": []},
        },
        supports_check_mode=True,
    )
    given = module.params
    orders, served, boot, authority = (Path(given[key]) for key in ("orders", "served", "boot", "authority"))
    key = Path(given["public_key"]) if given["public_key"] else None
    network = NetworkBoot(Path(given["network"])) if given["network"] else None
    desk = arming.Desk(orders, served, boot, authority, given["url"], given["words"], key, network)
    seeds = json.loads(given["seeds"])
    armed: dict[str, dict[str, str]] = {}
    failed: dict[str, str] = {}
    if not module.check_mode:
        for order_id in given["release"]:
            try:
                arming.release(desk, order_id)
            except (RefusedError, OSError) as error:
                failed[order_id] = str(error)
        for row in given["arm"]:
            node = str(row.get("machine", {}).get("node", "?"))
            try:
                if node not in seeds:
                    raise OrderError(f"{node}: no seed. Give its files in `seeds`")
                files = {
                    path: SeedFile(one["content"].encode(), int(str(one["mode"]), 8))
                    for path, one in seeds[node].items()
                }
                way = arming.Way(row.get("method", MEDIA), row.get("firmware", UEFI))
                armed[node] = arming.arm(desk, row["machine"], row["image"], files, given["window"], way)
            except (*_ERRORS, OSError, KeyError, ValueError) as error:
                failed[node] = f"{type(error).__name__}: {error}"
    changed = bool(given["release"] or given["arm"]) if module.check_mode else bool(given["release"] or armed)
    module.exit_json(changed=changed, armed=armed, failed_nodes=failed, states=arming.states(desk, given["nodes"]))


if __name__ == "__main__":
    main()
