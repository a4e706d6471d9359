#!/usr/bin/python
# SPDX-License-Identifier: GPL-3.0-or-later
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
"""Write all files of a role in one connection."""

from __future__ import annotations

DOCUMENTATION = r"""
module: files
short_description: Write all files of a role in one connection
version_added: 0.1.0
description:
  - Renders every file on the control node, sends them in one payload, and writes only what differs.
  - Each new content is written beside its target with owner and mode already right, then renamed over it. No file is ever
    half written, and no secret is readable by others, not for an instant.
  - All files with O(files[].validate) are validated before anything is written. When one is refused, nothing of the call is
    written.
  - Every written path is recorded on the node in C(/var/lib/bedplate/files.json). A path that this manifest once wrote and no longer
    names is removed. A path of several manifests is removed when the last one drops it. A file that was changed by hand
    since, a directory that is not empty, and everything older than bedplate are kept.
  - A run that changes nothing writes nothing.
options:
  manifest:
    description: Who owns these files. One name for one list of files, the same in every run.
    type: str
    required: true
  files:
    description: The files. Missing directories above them are made, with mode C(0755).
    type: list
    elements: dict
    required: true
    suboptions:
      path:
        description: Absolute path on the node.
        type: str
        required: true
      state:
        description:
          - Kind of the path. Leave a path out of the list to remove it.
          - V(block) puts O(files[].content) between two marks into another program's file, which must exist and keeps its
            owner and mode. If the entry is removed, the lines are removed.
        type: str
        choices: [file, directory, link, block]
        default: file
      content:
        description: The content, as text.
        type: str
      template:
        description: A template, found as M(ansible.builtin.template) finds its O(ansible.builtin.template#module:src).
        type: str
      src:
        description: A file of the control node, copied as it is, found as M(ansible.builtin.copy) finds it.
        type: str
      secret:
        description:
          - The name of a secret of the cluster, written as it is. The variable C(bedplate_secrets) gives it, or the secrets
            directory, where it is made when it does not exist yet and C(bedplate_secrets_make) is not false.
          - A node that bedplate once gave another one, which the directory of secrets has never had, refuses it, unless the
            variable C(bedplate_new_secrets) is true. So a lost directory does not give a running cluster new keys. For a
            secret of C(bedplate_secrets), its C(replaces) lists what a node may have instead.
          - V(true) marks a content from elsewhere as sensitive.
        type: raw
      kind:
        description: Kind of a new secret. C(munge_key) and C(jwt_key) are V(bytes), others V(password).
        type: str
        choices: [password, bytes]
      length:
        description: Number of characters or bytes of a new secret. C(munge_key) has 1024, others 32.
        type: int
      used_by:
        description:
          - Units that use a O(files[].secret). Where one of them runs with another content that bedplate did not write, the
            file is refused, unless C(bedplate_new_secrets) is true.
        type: list
        elements: str
      secrets:
        description: Marks in O(files[].content), each with the name of the secret that replaces it. These secrets are never made.
        type: dict
      sensitive:
        description: Show the content nowhere, not in diffs either.
        type: bool
        default: false
      target:
        description: What a link points to.
        type: str
      after:
        description:
          - A regular expression. A new block is added after the last line that matches, or at the end of the file. An existing block
            keeps its place.
        type: str
      owner:
        description: Name or number. By default C(root), or who runs the module when that is not root.
        type: str
      group:
        description: Name or number. By default C(root), or the group of who runs the module when that is not root.
        type: str
      mode:
        description: Octal digits in quotes. V(0644) by default, V(0755) for a directory, V(0600) for a sensitive file.
        type: str
      validate:
        description: A command that must accept the new content, which is C(%s). It is run without a shell.
        type: str
      scope:
        description:
          - V(cluster) renders a template once in a run, by the first host, for all of them.
          - Variables of a host or of a group other than C(all), facts, registered results and C(template_destpath) are then
            undefined.
        type: str
        choices: [host, cluster]
        default: host
      notify:
        description:
          - Handlers to notify when this file changes or is removed. Each must be in the C(notify) of the task too.
          - An entry without it notifies nothing.
        type: list
        elements: str
  payload:
    description: The rendered files. The action plugin sets it.
    type: str
notes:
  - Templates have the variables C(ansible_managed), C(template_path), C(template_fullpath) and C(template_destpath).
extends_documentation_fragment: [bedplate.cluster.deployment]
author: The bedplate authors (!UNKNOWN)
attributes:
  check_mode:
    support: full
    description: Predicts what a run does. Works before owners, directories and validating commands exist.
  diff_mode: {support: full, description: One diff a path. The content of sensitive files is not shown.}
"""

EXAMPLES = r"""
- name: Write the files of a compute node
  bedplate.cluster.files:
    manifest: slurm_compute
    files:
      - {path: /etc/munge/munge.key, secret: munge_key, owner: munge, group: munge, mode: "0400", notify: Restart munge}
      - {path: /etc/default/slurmd, template: slurmd.default.j2, notify: Restart slurmd}
      - {path: /etc/sudoers.d/slurm, content: "slurm ALL=NOPASSWD: /usr/sbin/reboot\n", mode: "0440", validate: visudo -cf %s}
      - {path: /etc/slurm/topology.conf, template: topology.conf.j2, scope: cluster}
      - {path: /var/spool/slurmd, state: directory, owner: slurm, group: slurm}
  notify: [Restart munge, Restart slurmd]
# => changed_files: [/etc/default/slurmd], removed: [], kept: {}; only "Restart slurmd" runs
"""

RETURN = r"""
changed_files: {description: The paths that were written or whose owner or mode changed., type: list, elements: str, returned: success}
removed: {description: The paths that were removed., type: list, elements: str, returned: success}
kept: {description: "Paths that left the manifest and stay, each with the reason.", type: dict, returned: success}
unchecked: {description: What check mode could not check yet., type: list, elements: str, returned: success}
notify: {description: The handlers of the paths that changed., type: list, elements: str, returned: success}
"""

from pathlib import Path

from ansible.module_utils.basic import AnsibleModule

from ansible_collections.bedplate.cluster.plugins.module_utils.primitives.files.file_writer import Scratch, apply
from ansible_collections.bedplate.cluster.plugins.module_utils.primitives.files.manifest import (
    STATE_DIRECTORY,
    NodeFilesError,
)
from ansible_collections.bedplate.cluster.plugins.module_utils.primitives.files.payload import unpack


def main() -> None:
    """Run the module."""
    module = AnsibleModule(
        argument_spec={
            "manifest": {"type": "str", "required": True},
            "files": {"type": "list", "elements": "dict", "required": True},
            "state_directory": {"type": "path", "default": STATE_DIRECTORY},
            "payload": {"type": "str", "no_log": True},
        },
        supports_check_mode=True,
    )
    if module.params["payload"] is None:
        module.fail_json(
            msg="bedplate.cluster.files works as a task only, since the files are rendered on the control node"
        )
    try:
        result = apply(
            module.params["manifest"],
            unpack(module.params["payload"]),
            Path(module.params["state_directory"]),
            check=module.check_mode,
            diff=module._diff,
            scratch=Scratch(module),
        )
    except NodeFilesError as error:
        module.fail_json(msg="\n".join(error.problems))
    for text in result.pop("problems"):
        module.warn(text)
    if result["unchecked"]:
        module.warn(f"check mode could not check yet: {'; '.join(sorted(set(result['unchecked'])))}")
    module.exit_json(**result)


if __name__ == "__main__":
    main()
