"""A directory with apt's settings and lists, over which the real apt-get runs without touching those of this machine."""

from __future__ import annotations

import subprocess
from collections.abc import Sequence
from pathlib import Path

from ansible_collections.bedplate.cluster.plugins.module_utils.common.command import Outcome


class AptRoot:
    """apt below one directory: `etc` is its /etc/apt."""

    def __init__(self, base: Path) -> None:
        self.base, self.etc = base, base / "etc"
        places = (
            "etc/sources.list.d",
            "etc/preferences.d",
            "etc/trusted.gpg.d",
            "state/lists/partial",
            "cache/archives/partial",
        )
        for name in places:
            (base / name).mkdir(parents=True)
        (base / "state/status").touch()

    def run(self, argv: Sequence[str]) -> Outcome:
        """Run a command; apt-get reads these directories alone."""
        state = self.base / "state"
        settings = {
            "Dir::Etc": self.etc,
            "Dir::State": state,
            "Dir::State::status": state / "status",
            "Dir::Cache": self.base / "cache",
        }
        options = [one for name, path in settings.items() for one in ("-o", f"{name}={path}")]
        # The directory is root's own.
        words = [argv[0], *options, "-o", "APT::Sandbox::User=root", *argv[1:]] if argv[0] == "apt-get" else list(argv)
        environment = {"LC_ALL": "C", "PATH": "/usr/sbin:/usr/bin:/sbin:/bin"}
        done = subprocess.run(words, capture_output=True, text=True, check=False, env=environment)
        return Outcome(done.returncode, done.stdout, done.stderr)
