# SPDX-License-Identifier: GPL-3.0-or-later
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
"""Copy an image to the provision host if it does not have it; documented in plugins/modules/site_image.py."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from ansible.errors import AnsibleActionFail
from ansible.plugins.action import ActionBase

from ansible_collections.bedplate.cluster.plugins.module_utils.image.build_image import sha256

_MODULE = "bedplate.cluster.site_image"


class ActionModule(ActionBase):  # type: ignore[misc]
    """Look, and copy only what is missing: an image has gigabytes."""

    _requires_connection = True

    def run(self, tmp: str | None = None, task_vars: dict[str, Any] | None = None) -> dict[str, Any]:
        """Run the task on one host."""
        super().run(tmp, task_vars)
        found: dict[str, Any] = self._execute_module(module_name=_MODULE, task_vars=task_vars)
        if not found.get("is_missing") or found.get("failed"):
            return found
        source = self._checked()
        if self._task.check_mode:
            return found
        folder = self._make_tmp_path()
        try:
            upload = self._connection._shell.join_path(folder, "image")
            self._transfer_file(str(source), upload)
            self._fixup_perms2((folder, upload))
            found = self._execute_module(
                module_name=_MODULE, module_args={**self._task.args, "upload": upload}, task_vars=task_vars
            )
        finally:
            self._remove_tmp_path(folder)
        return found

    def _checked(self) -> Path:
        """Return the file on the control node, if it is the stated one."""
        source, stated = Path(self._task.args["source"]), self._task.args["sha256"]
        place = self._task.args.get("stated_in") or "sha256"
        try:
            found = sha256(source)
        except OSError as error:
            text = f"{source}: {error.strerror}. Put the image there, or give it a recipe in `image_recipes`."
            raise AnsibleActionFail(text) from None
        if found != stated:
            text = f"{place} is {stated}, and {source} has {found}. Write {found} there, or put the other image there."
            raise AnsibleActionFail(text)
        return source
