#!/usr/bin/python
# SPDX-License-Identifier: GPL-3.0-or-later
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
"""Documentation of the action plugin of this name."""

from __future__ import annotations

DOCUMENTATION = r"""
module: package_mirror
short_description: Mirror what the GPU nodes of a cluster file install
version_added: 0.1.0
description:
  - Computes with the real apt, in its own root directory, the packages of the GPU nodes of each system, with dependencies; lists them with
    origins and checksums; fetches the missing ones; and publishes one signed repository for each system.
  - It runs on the control node, which must be a Debian or Ubuntu that reaches the origins, and connects to no machine of the cluster.
  - Origins that are not signed by their keys are refused. The mirror has its own signing key, which is made on first use in the
    secrets directory and whose public half is C(key.asc) in the mirror.
  - An index changes last and at once, after every file has been fetched with its checksum. Older versions stay until O(prune).
options:
  cluster_file:
    description: Path of the cluster file.
    type: path
    required: true
  directory:
    description: Where the mirror is, an absolute path; C(/srv/bedplate/mirror/CLUSTER) when empty.
    type: str
    default: ""
  cache:
    description: Where apt's lists are kept between runs; C(bedplate/mirror/CLUSTER) below the user's cache directory when empty.
    type: str
    default: ""
  list_only:
    description: Write the artifact list and fetch nothing.
    type: bool
    default: false
  prune:
    description: Remove files that the list lacks. It also makes an untrusted index again.
    type: bool
    default: false
  packages:
    description: Further packages for every system, C(NAME) or C(NAME=VERSION), with their dependencies.
    type: list
    elements: str
    default: []
  files:
    description: Other files, which are in C(files) of the mirror.
    type: list
    elements: dict
    default: []
    suboptions:
      url: {description: "Where it is: http, https or file.", type: str, required: true}
      sha256: {description: Its checksum., type: str, required: true}
      name: {description: Its name in the mirror; that of the address when empty., type: str}
author: The bedplate authors (!UNKNOWN)
attributes:
  check_mode: {support: full, description: "It reads the origins and reports what it would fetch; the mirror stays as it is."}
  diff_mode: {support: full, description: The addresses of what is fetched.}
"""

EXAMPLES = r"""
- name: Mirror what the GPU nodes install
  bedplate.cluster.package_mirror:
    cluster_file: "{{ bedplate_cluster_file }}"
    directory: /srv/mirror
  register: mirrored
# => mirrored.msg: 160 packages (180.9 MB) for debian-13; 160 files (180.9 MB) fetched; mirror: /srv/mirror
"""

RETURN = r"""
msg: {description: One line for a reader., type: str, returned: success}
directory: {description: Where the mirror is., type: str, returned: success}
systems: {description: "By system: origins, number of packages, bytes.", type: dict, returned: success}
packages: {description: How many packages are listed., type: int, returned: success}
bytes: {description: Their size., type: int, returned: success}
fetched: {description: "Addresses of what was fetched, in check mode of what would be.", type: list, elements: str, returned: success}
fetched_bytes: {description: The size of that., type: int, returned: success}
published: {description: Systems whose index changed., type: list, elements: str, returned: success}
kept: {description: Packages of earlier lists., type: list, elements: str, returned: success}
removed: {description: Files that went., type: list, elements: str, returned: success}
key_fingerprint: {description: "Of the key that signs; empty if there is no key yet.", type: str, returned: success}
"""
