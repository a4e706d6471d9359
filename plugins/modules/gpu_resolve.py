#!/usr/bin/python
# SPDX-License-Identifier: GPL-3.0-or-later
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
"""Documentation of the action plugin of this name."""

from __future__ import annotations

DOCUMENTATION = r"""
module: gpu_resolve
short_description: Write the lock of a cluster's GPU software from the indexes of its repositories
version_added: 0.2.0
description:
  - Reads the signed indexes of the repositories of all profiles with a C(gpu_stack), and writes all versions of the packages that
    bedplate can name to C(<site>.gpu-lock.json) beside the cluster file, with the digest of each index.
  - It runs on the control node and connects to no machine of the cluster. It needs C(gpg).
  - A lock that exists stays as it is, unless O(mode=update); a warning says what of the cluster file cannot be installed with it.
  - A lock with which a profile cannot be installed is not written, also with O(mode=update) - the task fails, and the lock before stays.
  - Two runs with the same indexes write the same bytes.
options:
  cluster_file:
    description: Path of the cluster file.
    type: path
    required: true
  mode:
    description:
      - V(missing) writes the lock where no lock exists, V(update) reads the repositories again.
      - V(off) does nothing, so that the versions of bedplate's table are used.
    type: str
    default: missing
    choices: [missing, update, "off"]
  origins:
    description: Read the repositories of the owners also where the nodes read a mirror.
    type: bool
    default: false
author: The bedplate authors (!UNKNOWN)
attributes:
  check_mode: {support: full, description: "The lock is predicted: later tasks of the run use it, and it is removed at the end."}
  diff_mode: {support: none, description: The changed packages are in the result.}
"""

EXAMPLES = r"""
- name: Write the lock of the GPU software
  bedplate.cluster.gpu_resolve:
    cluster_file: "{{ bedplate_cluster_file }}"
    mode: update
  register: resolved
# => resolved.changes: ["libcuda1 580.126.09-1 -> 580.178.04-1 (hgx)"]
"""

RETURN = r"""
msg: {description: One line for a reader., type: str, returned: success}
lock: {description: Path of the lock., type: str, returned: success}
sha256: {description: Digest of the content of the lock., type: str, returned: success}
changes:
  description: "Packages that change for nodes, a line each: name, old and new version, profiles."
  type: list
  elements: str
  returned: success
"""
