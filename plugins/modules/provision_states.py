#!/usr/bin/python
# SPDX-License-Identifier: GPL-3.0-or-later
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
"""Read and write how far nodes are that are installed, on the provision host."""

from __future__ import annotations

DOCUMENTATION = r"""
module: provision_states
short_description: Read and write how far nodes are that are installed
version_added: 0.2.0
description:
  - Runs once on the provision host, for all nodes of a run. M(bedplate.cluster.provision_orders) arms and releases the orders themselves.
  - A node that another run holds is not written, and is in C(held).
  - A file or an order that cannot be read is in C(errors), and never counts as none.
options:
  directory:
    description: Folder of the provision host, with C(states), C(orders), C(served) and C(images).
    type: path
    required: true
  nodes:
    description: Nodes that are read.
    type: list
    elements: str
    default: []
  write:
    description: Progress of nodes, with the fields of C(progress) below.
    type: list
    elements: dict
    default: []
  hold:
    description: Nodes that O(holder) holds from now on, in the state that they have.
    type: list
    elements: str
    default: []
  until:
    description: Until when O(hold) is valid at the latest, in seconds since 1970.
    type: float
    default: 0.0
  holder:
    description: The process that works on the run. Needed with O(write) and O(hold).
    type: str
    default: ''
  gone:
    description: Holders that have ended.
    type: list
    elements: str
    default: []
  images:
    description: Images whose C(image.json) is read. Each must be served whole, and with O(public_key) signed.
    type: list
    elements: str
    default: []
  public_key:
    description: Public key of minisign, a file.
    type: path
author: The bedplate authors (!UNKNOWN)
attributes:
  check_mode: {support: full, description: It reads alone.}
"""

EXAMPLES = r"""
- name: Read how far the nodes are
  bedplate.cluster.provision_states:
    directory: /var/lib/bedplate/provision
    nodes: [gpu001, gpu002]
"""

RETURN = r"""
nodes:
  description: >-
    Node to C(progress), null without any; C(order), the state of its order; C(open), the id of its open order; C(medium), the path of the
    medium of its order, a secret.
  type: dict
  returned: always
errors: {description: Node to the reason why it cannot be read., type: dict, returned: always}
held: {description: Node to the reason why it was not written., type: dict, returned: always}
images: {description: Image to the content of its image.json., type: dict, returned: always}
image_errors: {description: Image to the reason why it cannot be installed., type: dict, returned: always}
now: {description: 'Time of the provision host, in seconds since 1970.', type: float, returned: always}
"""

import time
from pathlib import Path
from typing import Any

from ansible.module_utils.basic import AnsibleModule

from ansible_collections.bedplate.cluster.plugins.module_utils.provision.orders import Orders
from ansible_collections.bedplate.cluster.plugins.module_utils.provision.progress import (
    NodeStates,
    ProgressError,
    progress_of,
)
from ansible_collections.bedplate.cluster.plugins.module_utils.provision.served_image import ImageError, read_image


def node_facts(folder: Path, node: str) -> dict[str, Any]:
    """Return progress, order and medium of a node. Raises ProgressError, OSError, ValueError."""
    progress = NodeStates(folder / "states").read(node)
    facts: dict[str, Any] = {
        "progress": progress.facts() if progress else None,
        "order": None,
        "open": "",
        "medium": "",
    }
    # A folder of orders that does not exist is not made by a reader.
    if (folder / "orders" / "orders").is_dir():
        orders = Orders(folder / "orders")
        facts["open"] = orders.open_order(node)
        # A run that was killed may have opened an order that its progress does not have yet.
        if order_id := (progress.order if progress else "") or facts["open"]:
            facts["order"] = orders.state(order_id)
            facts["medium"] = orders.noted(order_id, "medium")
    return facts


def main() -> None:
    """Write, and read."""
    module = AnsibleModule(
        argument_spec={
            "directory": {"type": "path", "required": True},
            "nodes": {"type": "list", "elements": "str", "default": []},
            "write": {"type": "list", "elements": "dict", "default": []},
            "hold": {"type": "list", "elements": "str", "default": []},
            "until": {"type": "float", "default": 0.0},
            "holder": {"type": "str", "default": ""},
            "gone": {"type": "list", "elements": "str", "default": []},
            "images": {"type": "list", "elements": "str", "default": []},
            "public_key": {"type": "path", "no_log": False},
        },
        supports_check_mode=True,
    )
    given = module.params
    folder = Path(given["directory"])
    result: dict[str, Any] = {
        "nodes": {},
        "errors": {},
        "held": {},
        "images": {},
        "image_errors": {},
        "now": time.time(),
    }
    try:
        if given["write"] and not module.check_mode:
            rows = [
                progress_of({**row, "at": float(row["at"]), "until": float(row["until"])}) for row in given["write"]
            ]
            result["held"] = NodeStates(folder / "states").write(rows, given["holder"], given["gone"])
        if given["hold"] and not module.check_mode:
            held = NodeStates(folder / "states").hold(given["hold"], given["holder"], given["until"], given["gone"])
            result["held"].update(held)
    except (OSError, ProgressError) as error:
        module.fail_json(msg=f"The progress of nodes was not written. {error}")
    for node in given["nodes"]:
        try:
            result["nodes"][node] = node_facts(folder, node)
        except (OSError, ValueError, KeyError) as error:
            result["errors"][node] = f"{type(error).__name__}: {error}"
    for name in given["images"]:
        try:
            result["images"][name] = read_image(
                folder, name, Path(given["public_key"]) if given["public_key"] else None
            )
        except (ImageError, OSError) as error:
            result["image_errors"][name] = str(error)
    module.exit_json(changed=bool(given["write"] or given["hold"]), **result)


if __name__ == "__main__":
    main()
