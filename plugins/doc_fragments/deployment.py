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
      - Whether what this manifest has on record and C(files) lacks is removed. With V(false) it stays, for a task that brings files
        before a later one with the same C(manifest) and the whole list removes what is out of use.
    type: bool
    default: true
  keep_below:
    description:
      - Absolute paths of directories. What is below them, this manifest has on record and C(files) lacks is not removed, for a run in which
        something may still use it. A later task without them removes it.
    type: list
    elements: str
    default: []
  take_back:
    description:
      - Treat C(files) and C(units) as one change. When a file cannot be written, or a unit does not start, reload or pass its
        C(proof), the files, their owners and modes and the records of bedplate are restored, the units that ran before run on
        them again, and the task fails with both. Units that did not run before are stopped, and disabled if they were.
      - What was before is in C(take_back/<manifest>.json) of C(state_directory) until the change is proved. After a run that was
        killed, the next one goes on from there; if it fails too, the state before the killed run is restored.
      - A path that is no longer as the killed run wrote it was changed by somebody since. It is not restored, but left as this run found
        it, and C(left_alone) names it. Units are then brought back to what they were when this run began.
      - A run that succeeds with this C(manifest), with C(take_back) or without, ends the journal of a killed run; with C(prune=false) for
        its own C(files) alone.
      - Packages and C(sources) are not part of it. Needs C(manifest).
    type: bool
    default: false
  unchanged:
    description:
      - Path of a file -> SHA-256 of the content that C(files) were made from, such as RV(bedplate.cluster.slurm_in_use#module:compared). If
        one of these files has another content now, or is gone, the task fails before it changes anything.
      - Tasks with the same C(manifest) wait for each other. So of two runs that have read the same files, one writes and the other fails.
    type: dict
    default: {}
"""
