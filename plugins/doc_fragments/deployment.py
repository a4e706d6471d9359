# SPDX-License-Identifier: GPL-3.0-or-later
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
"""Options that several modules share."""

from __future__ import annotations


class ModuleDocFragment:
    """Options of modules that write files and units: the place of the record, and how a part is deployed."""

    DOCUMENTATION = r"""
options:
  state_directory:
    description: Where the machine keeps the record of what was written.
    type: path
    default: /var/lib/bedplate
"""

    PART = r"""
options:
  repositories:
    description: Package repositories, each with the arguments of M(ansible.builtin.deb822_repository).
    type: list
    elements: dict
    default: []
  touched:
    description: Files that a task before this one changes, as O(bedplate.cluster.units#module:touched). The task's own are known.
    type: list
    elements: str
    default: []
  prune:
    description:
      - Whether files on record in this manifest that C(files) lacks are removed. With V(false) they stay, for a task that writes files
        before a later one with the same C(manifest) and the whole list removes what is out of use.
    type: bool
    default: true
  keep_below:
    description:
      - Absolute paths of directories. What is below them, this manifest has on record and C(files) lacks is not removed, for a run in which
        a program may still use it. A later task without them removes it.
    type: list
    elements: str
    default: []
  take_back:
    description:
      - Treat C(files) and C(units) as one change. When a file cannot be written, or a unit does not start, reload or pass its
        C(proof), the files, their owners and modes and the records of bedplate are restored, the units that ran before run on
        them again, and the task fails with both. Units that did not run before are stopped, and disabled if they were.
      - What was before is in C(take_back/<manifest>.json) of C(state_directory) until the change is proved. After a run that was
        killed, the next one continues there; if it fails too, the state before the killed run is restored.
      - If a path differs from what the killed run wrote, another program or person changed it since. It stays as this run found
        it, and C(left_alone) names it. Units then return to their state at the start of this run.
      - A run that succeeds with this C(manifest), with C(take_back) or without, ends the journal of a killed run; with C(prune=false) for
        its own C(files) alone.
      - Packages and C(sources) are not part of it. Needs C(manifest).
    type: bool
    default: false
  unchanged:
    description:
      - Path of a file -> SHA-256 of the content that C(files) were made from, such as RV(bedplate.cluster.slurm_in_use#module:compared). If
        one of these files has other content now, or was removed, the task fails before it changes any file.
      - Tasks with the same C(manifest) wait for each other. So of two runs that have read the same files, one writes and the other fails.
    type: dict
    default: {}
"""
