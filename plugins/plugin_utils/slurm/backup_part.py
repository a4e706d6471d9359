# SPDX-License-Identifier: GPL-3.0-or-later
"""Decide what a host backs up of Slurm's data, and the part backup, which does it by a timer."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

from ansible_collections.bedplate.cluster.plugins.module_utils.slurm.backup.crypt import PUBLIC, key_mistake
from ansible_collections.bedplate.cluster.plugins.module_utils.slurm.conf import conf_reader

from ..cluster import Cluster
from . import render

PATH, KEEP, AT = "/var/backups/bedplate", 7, "daily"
RECIPIENT, SITE_FILE = "/etc/bedplate/backup-recipient.asc", "/etc/bedplate/backup-site.json"
SECONDS, OLDEST = 7200, 48
"""Seconds that each member of a backup may take; hours after which verify warns of the newest one."""
DATABASE = "slurm_acct_db"
"""StorageLoc where slurmdbd.conf does not state it."""
_HERE = ("", "localhost", "127.0.0.1", "::1")


def tools(cluster: Cluster) -> dict[str, Any]:
    """Return the values of the part crypt."""
    manager = cluster.slurm.packages.manager
    return {"manager": manager, "packages": ["gpg" if manager == "apt" else "gnupg2"]}


def values(cluster: Cluster, host: str, options: Mapping[str, Any]) -> dict[str, Any]:
    """Return the values of the parts backup and backup_absent. ValueError: options that cannot be, or a key that cannot be read."""
    if not options.get("enabled", True):
        return tools(cluster)
    recipient = recipient_path("", options, cluster.path)
    if not recipient:
        raise ValueError("slurm_backup.recipient is not set; allowed: the path of a file with an OpenPGP public key")
    try:
        data = Path(recipient).read_bytes()
        site = {one.name: one.read_text(encoding="utf-8") for one in records(cluster.path)}
    except OSError as error:
        raise ValueError(f"slurm_backup: {error.filename}: {error.strerror}") from error
    if wrong := key_mistake(data, private=False):
        raise ValueError(f"slurm_backup.recipient: {recipient} is {wrong}")
    if PUBLIC not in data:
        raise ValueError(
            f"slurm_backup.recipient: {recipient} is not in armor; allowed: the output of `gpg --export --armor KEY`"
        )
    path, keep = where(options)
    settings = {
        **data_of(cluster, host),
        "recipient": RECIPIENT,
        "path": path,
        "keep": keep,
        "seconds": SECONDS,
        "extra": [SITE_FILE],
    }
    return {
        **tools(cluster),
        "settings": settings,
        "recipient": data.decode("ascii", "replace"),
        "site": site,
        "at": str(options.get("at") or AT),
        "timeout": 3 * SECONDS,
    }


def expected(cluster: Cluster, host: str, options: Mapping[str, Any]) -> dict[str, Any]:
    """Return what verify expects of the backups on a host."""
    return {"path": where(options)[0], "of": f"{slurm_name(cluster)}-{host}", "hours": OLDEST}


def records(cluster_file: str) -> list[Path]:
    """Return the cluster file and the files of its name beside it, such as <name>.gpu-lock.json. Raises OSError."""
    path = Path(cluster_file).resolve()
    name = path.name.removesuffix(".bedplate.yml")
    return sorted(one for one in path.parent.iterdir() if one.is_file() and one.name.startswith(f"{name}."))


def backup_hosts(cluster: Cluster) -> list[str]:
    """Return the hosts of a backup in their order: the primary controller, then the database."""
    return list(dict.fromkeys([*cluster.services.controllers[:1], *cluster.services.database[:1]]))


def data_of(cluster: Cluster, host: str) -> dict[str, str]:
    """Return cluster, host, state and database of a host, "" for what it does not have. ValueError: a database that is elsewhere."""
    services = cluster.services
    return {
        "cluster": slurm_name(cluster),
        "host": host,
        "state": state_path(cluster) if host in services.controllers[:1] else "",
        "database": database_name(cluster) if host in services.database[:1] else "",
    }


def slurm_name(cluster: Cluster) -> str:
    """Return the name of Slurm's cluster, which names its tables, too."""
    return str(render.desired_state(cluster)["cluster"])


def state_path(cluster: Cluster) -> str:
    """Return StateSaveLocation."""
    return str(render.desired_state(cluster)["state_save_location"])


def database_name(cluster: Cluster) -> str:
    """Return the name of the accounting database. ValueError: it is on another host."""
    conf = conf_reader.parse(render.slurmdbd_conf(cluster))
    if (where := (conf.option("StorageHost") or "").lower()) not in _HERE:
        raise ValueError(
            f"{cluster.path}: slurm.slurmdbd.StorageHost: {where}; allowed: the host of slurmdbd, whose database is dumped"
        )
    return conf.option("StorageLoc") or DATABASE


def recipient_path(chosen: str, options: Mapping[str, Any], cluster_file: str) -> str:
    """Return the file of the public key, of this run or of slurm_backup; a relative path is beside the cluster file."""
    name = chosen or str(options.get("recipient") or "")
    return str(Path(cluster_file).resolve().parent / name) if name else ""


def where(options: Mapping[str, Any]) -> tuple[str, int]:
    """Return the folder of backups on a host, and how many stay there."""
    return str(options.get("path") or PATH), int(options.get("keep") or KEEP)


def target_folder(chosen: str, cluster: Cluster) -> Path:
    """Return the folder on the control node for the file of a backup."""
    return Path(chosen or f"~/.local/state/bedplate-backups/{slurm_name(cluster)}").expanduser().resolve()


def parts_folder(chosen: str, cluster: Cluster) -> Path:
    """Return the folder on the control node for the parts of hosts, until one file has them all."""
    return target_folder(chosen, cluster) / ".parts"
