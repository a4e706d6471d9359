#!/usr/bin/python
# SPDX-License-Identifier: GPL-3.0-or-later
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
"""Documentation of the action plugin of this name."""

from __future__ import annotations

DOCUMENTATION = r"""
module: recover_host_key
short_description: Judge the SSH host key of a machine before any login, and write a proved one
version_added: 0.2.0
description:
  - Reads which host keys a machine offers, and compares them with the known_hosts files of Ansible's SSH, as C(ssh -G) reports them.
    A key that they do not have must be stated by C(recover_host_key_file), C(recover_host_key_ca) or C(recover_host_key_confirm).
  - A stated key is proved by C(ssh) with strict checks and a known_hosts file that has only this key. No login is tried before.
  - With O(verdict) it writes a proved key into the first of these files, as one atomic change, and removes other keys of the machine from
    all of them. Lines of other machines, of a CA and of revoked keys stay.
  - Never fails because of a key. P(bedplate.cluster.recover_plan#module) refuses all wrong keys at once.
options:
  verdict:
    description: The result of an earlier task of this action. Its key is written, if it is new.
    type: dict
author: The bedplate authors (!UNKNOWN)
attributes:
  action: {support: full, description: It runs on the control node.}
  check_mode: {support: full, description: It compares and proves; it predicts what is written.}
"""

EXAMPLES = r"""
- name: Compare the host key
  bedplate.cluster.recover_host_key:
  register: key

- name: Write the proved host key
  bedplate.cluster.recover_host_key: {verdict: "{{ key }}"}
"""

RETURN = r"""
state: {description: "V(known), V(new) or V(refused).", type: str, returned: without O(verdict)}
why: {description: Why it is refused., type: str, returned: without O(verdict)}
offered: {description: Types and fingerprints of the keys that it offers., type: list, elements: str, returned: without O(verdict)}
recorded: {description: The same of the known_hosts files., type: list, elements: str, returned: without O(verdict)}
unconfirmed: {description: Whether only a stated source is missing., type: bool, returned: without O(verdict)}
key: {description: "What is written, null unless it is new.", type: dict, returned: without O(verdict)}
files: {description: Changed files., type: list, elements: str, returned: with O(verdict)}
"""
