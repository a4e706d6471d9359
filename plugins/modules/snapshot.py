#!/usr/bin/python
# SPDX-License-Identifier: GPL-3.0-or-later
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
"""Documentation of the action plugin of this name."""

from __future__ import annotations

DOCUMENTATION = r"""
module: snapshot
short_description: Make a dated snapshot of all repositories of a cluster file, and promote it
version_added: 0.2.0
description:
  - With O(state=made) it copies all packages of C(snapshots.repositories) into a dated folder, with one signed repository for each system
    and kind. A snapshot that exists is compared with its manifest, and never changed.
  - With O(state=promoted) the file beside the cluster file names the snapshot for all machines, with O(state=testing) for the nodes of
    C(snapshots.test) alone; O(state=untested) ends that. The snapshot is read whole before, and a damaged one is refused.
  - It runs on the control node, and connects to no machine of the cluster.
options:
  cluster_file:
    description: Path of the cluster file.
    type: path
    required: true
  name:
    description: Name of the snapshot, a date with or without more words behind it, such as V(2026-11-26).
    type: str
    required: true
  state:
    description: What to do with it.
    type: str
    choices: [made, promoted, testing, untested]
    required: true
  directory:
    description: Where the mirror is, an absolute path; C(/srv/bedplate/mirror/CLUSTER) when empty. Snapshots are in C(snapshots) there.
    type: str
    default: ""
  cache:
    description: Where lists are kept between runs; C(bedplate/mirror/CLUSTER) below the user's cache directory when empty.
    type: str
    default: ""
  report:
    description: Folder for the SPDX list and the list of changes of a promotion; when empty, no file is written.
    type: str
    default: ""
author: The bedplate authors (!UNKNOWN)
attributes:
  check_mode: {support: full, description: It reads origins or snapshots and reports what it would do.}
  diff_mode: {support: full, description: "What is fetched, or the packages that differ from the promoted snapshot."}
"""

EXAMPLES = r"""
- name: Promote a snapshot
  bedplate.cluster.snapshot:
    cluster_file: "{{ bedplate_cluster_file }}"
    name: 2026-11-26
    state: promoted
"""

RETURN = r"""
msg: {description: One line for a reader., type: str, returned: success}
name: {description: Name of the snapshot., type: str, returned: success}
systems: {description: "System -> kinds of its repositories.", type: dict, returned: success}
packages: {description: How many packages it has., type: int, returned: success}
fetched: {description: "Addresses of fetched files, in check mode of files to fetch.", type: list, elements: str, returned: O(state=made)}
fetched_bytes: {description: The size of that., type: int, returned: O(state=made)}
changes: {description: "Packages that differ from the promoted snapshot, a line each.", type: list, elements: str, returned: otherwise}
"""
