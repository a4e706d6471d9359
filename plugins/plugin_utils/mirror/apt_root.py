# SPDX-License-Identifier: GPL-3.0-or-later
"""apt in its own root directory: compute the packages for a machine of another system, on any machine.

Nothing of this machine's apt is used but how it reaches the network (proxies, certificates, logins) and what it says about clocks.
Nothing is installed there, so every dependency is listed.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence
from dataclasses import replace
from pathlib import Path

from ansible_collections.bedplate.cluster.plugins.module_utils.common import command
from ansible_collections.bedplate.cluster.plugins.module_utils.common.versions import matches

from . import packages_files
from .mirror_model import MirrorError, MirrorOrigin, MirrorPackage, MirrorSystem, Need, PackageSet
from .packages_files import Fields

_CARRIED = ("Acquire::http", "Acquire::https", "Acquire::Check-Valid-Until", "Acquire::Check-Date", "Acquire::Retries")
_URI = re.compile(r"'(?P<url>[^']+)' (?P<file>\S+) (?P<size>[0-9]+) SHA256:(?P<sha256>[0-9a-f]{64})\Z")
_SAID = re.compile(r"[EW]: (.+(?:\n .+)*)")
# What apt adds to every error.
_GENERAL = ("Some index files failed to download", "Updating from such a repository", "See apt-secure(8)")
_UNMET = "The following packages have unmet dependencies"
_UPDATE = 1800.0
_ASK = 300.0


class AptRoot:
    """A directory with configuration, keys and lists for one system; it is kept, so that only changed lists are read again.

    It has these origins and no others: what another set of the system comes from may have the same packages in other versions.
    """

    def __init__(self, directory: Path, system: MirrorSystem, origins: Sequence[MirrorOrigin]) -> None:
        self.directory = directory
        self.system = system
        self.origins = origins
        self.config = config_of(directory)

    def prepare(self) -> None:
        """Write the files that apt reads, the keys first; MirrorError: a missing key."""
        for name in ("parts", "preferences.d", "sources.d", "keys", "lists/partial", "archives/partial"):
            (self.directory / name).mkdir(parents=True, exist_ok=True)
        for path in [*self.directory.glob("sources.d/*"), *self.directory.glob("keys/*")]:
            path.unlink()
        (self.directory / "status").write_text("")
        self.config.write_text(self._configuration())
        missing = [self._missing_key(origin) for origin in self.origins]
        if any(missing):
            raise MirrorError(text for text in missing if text)
        for origin in self.origins:
            (self.directory / f"sources.d/{origin.name}.sources").write_text(self._source(origin))

    def update(self) -> None:
        """Fetch the lists of all origins; MirrorError: an origin that cannot be reached, or is not signed by its key."""
        done = self._run("apt-get", ["update", "-q", "-o", "APT::Update::Error-Mode=any"], _UPDATE)
        said = [text for text in _SAID.findall(done.stderr) if not text.startswith(_GENERAL)]
        failed = [text for text in said if "Failed to fetch" in text]
        if done.code != 0 or failed:
            reasons = said or [done.text or "apt-get update said nothing"]
            raise MirrorError(f"{self.system.name}: {text}" for text in reasons)

    def packages(self, wanted: PackageSet) -> list[MirrorPackage]:
        """Return what a set and all its dependencies are; MirrorError: what no origin has, or what does not go together."""
        needs = self._exact(wanted)
        preferences = self.directory / "preferences"
        preferences.write_text(wanted.preferences)
        # Without a version apt decides, by the preferences, as it does on a node.
        asked = [need.name if need.version == "*" else f"{need.name}={need.version}" for need in needs]
        install = ["install", "-y", "--no-install-recommends", "-o", f"Dir::Etc::preferences={preferences}"]
        done = self._run("apt-get", [*install, "-qq", "--print-uris", "-o", "Acquire::ForceHash=SHA256", *asked], _ASK)
        if done.code != 0:
            # Quiet as that was, it did not say which package stands in the way of which.
            said = self._run("apt-get", [*install, "-q", "--simulate", *asked], _ASK).text
            why = said[said.find(_UNMET) :] if _UNMET in said else said
            raise MirrorError([f"{self.system.name}, {wanted.label}: apt cannot install this together:\n{why}"])
        return self._found(done.stdout.splitlines(), needs)

    def _exact(self, wanted: PackageSet) -> list[Need]:
        """Return the needs with whole versions, the highest that fits of each; what may be any version stays so."""
        offered: dict[str, list[str]] = {}
        for fields in self._records({need.name for need in wanted.needs}):
            offered.setdefault(fields["Package"], []).append(fields["Version"])
        exact, missing = [], []
        for need in wanted.needs:
            versions = offered.get(need.name, [])
            fitting = [version for version in versions if matches(version, need.version)]
            if fitting:
                exact.append(need if need.version == "*" else replace(need, version=fitting[0]))
            else:
                missing.append(self._absent(need, list(dict.fromkeys(versions)), wanted.label))
        if missing:
            raise MirrorError(missing)
        return exact

    def _absent(self, need: Need, versions: Sequence[str], label: str) -> str:
        asked = "; ".join(f"{one.url} {' '.join((*one.suites, *one.components))}" for one in self.origins)
        there = f"other versions: {', '.join(versions)}" if versions else "no origin has another version"
        which = "" if need.version == "*" else f" in version {need.version}"
        return f"{self.system.name}, {label}: no origin has {need.name}{which} (part {need.part}); {there}. Origins: {asked}"

    def _records(self, names: Iterable[str]) -> list[Fields]:
        """Return all paragraphs of these packages, the versions that apt prefers first."""
        done = self._run("apt-cache", ["show", "--all-versions", *sorted(names)], _ASK)
        found = packages_files.parse(done.stdout)
        # Names that nobody has are an error to apt-cache; here they are simply not among the records.
        if not found and done.code != 0 and "No packages found" not in done.stderr:
            raise MirrorError([f"{self.system.name}: apt-cache: {done.text}"])
        return found

    def _found(self, lines: Sequence[str], needs: Sequence[Need]) -> list[MirrorPackage]:
        located = {}
        for line in lines:
            match = _URI.match(line.strip())
            if not match:
                raise MirrorError([f"{self.system.name}: no SHA256 in its origin, or no line of apt: {line.strip()!r}"])
            located[match["sha256"]] = match["url"]
        records: dict[str, Fields] = {}
        names = {line.split("' ", 1)[1].split("_", 1)[0] for line in lines}
        for fields in self._records(names):
            sha256 = fields.get("SHA256", "")
            if sha256 in located and sha256 not in records:
                packages_files.check(fields)
                records[sha256] = fields
        lost = [located[sha256] for sha256 in located if sha256 not in records]
        if lost:
            raise MirrorError(f"{self.system.name}: {url} is in no list of apt" for url in lost)
        parts = packages_files.parts_of({fields["Package"]: fields for fields in records.values()}, needs)
        asked = {need.name for need in needs}
        return [self._package(fields, located[sha256], parts, asked) for sha256, fields in records.items()]

    def _package(self, fields: Fields, url: str, parts: dict[str, tuple[str, ...]], asked: set[str]) -> MirrorPackage:
        bases = [origin.url.rstrip("/") for origin in self.origins if _below(url, origin.url)]
        name = fields["Package"]
        package = MirrorPackage(
            name=name,
            version=fields["Version"],
            architecture=fields["Architecture"],
            url=url,
            origin=max(bases, key=len, default=""),
            size=int(fields["Size"]),
            sha256=fields["SHA256"],
            paragraph="",
            parts=parts[name],
            asked=name in asked,
        )
        return replace(package, paragraph=packages_files.text_of(fields, package.file))

    def _configuration(self) -> str:
        at = self.directory
        carried = self._carried()
        return f"""\
// Written by bedplate: this apt ignores the configuration and the packages of this machine.
{carried}Dir::Etc "{at}";
Dir::Etc::parts "{at}/parts";
Dir::Etc::main "none";
Dir::Etc::sourcelist "/dev/null";
Dir::Etc::sourceparts "{at}/sources.d";
Dir::Etc::preferences "/dev/null";
Dir::Etc::preferencesparts "{at}/preferences.d";
Dir::Etc::trusted "none";
Dir::Etc::trustedparts "{at}/parts";
Dir::Etc::netrc "/etc/apt/auth.conf";
Dir::Etc::netrcparts "/etc/apt/auth.conf.d";
Dir::State "{at}";
Dir::State::lists "{at}/lists";
Dir::State::status "{at}/status";
Dir::Cache "{at}";
Dir::Cache::archives "{at}/archives";
APT::Architecture "{self.system.architecture}";
#clear APT::Architectures;
APT::Architectures:: "{self.system.architecture}";
APT::Install-Recommends "false";
APT::Sandbox::User "root";
Acquire::Languages "none";
Acquire::PDiffs "false";
"""

    @staticmethod
    def _carried() -> str:
        """Return this machine's proxy settings of apt, which its private root must share."""
        lines = []
        for name in _CARRIED:
            done = command.run(["apt-config", "dump", "--format", '%F "%v";%n', name], _ASK)
            lines += [line for line in done.stdout.splitlines() if line.startswith(name) and not line.endswith(' "";')]
        return "".join(f"{line}\n" for line in lines)

    @staticmethod
    def _missing_key(origin: MirrorOrigin) -> str:
        if not origin.key:
            return f"{origin.name} ({origin.url}): its key is not known. {origin.hint}".rstrip()
        if origin.key.startswith("/") and not Path(origin.key).is_file():
            return f"{origin.name} ({origin.url}): {origin.key} is not on this machine. {origin.hint}".rstrip()
        return ""

    def key_file(self, origin: MirrorOrigin) -> Path:
        """Return where the key of an origin is for apt."""
        return Path(origin.key) if origin.key.startswith("/") else self.directory / f"keys/{origin.name}.asc"

    def _source(self, origin: MirrorOrigin) -> str:
        key = self.key_file(origin)
        if not origin.key.startswith("/"):
            key.write_text(origin.key.strip() + "\n")
        components = f"Components: {' '.join(origin.components)}\n" if origin.components else ""
        return f"Types: deb\nURIs: {origin.url}\nSuites: {' '.join(origin.suites)}\n{components}Signed-By: {key}\n"

    def _run(self, program: str, arguments: Sequence[str], timeout: float) -> command.Outcome:
        return command.run(["env", f"APT_CONFIG={self.config}", program, *arguments], timeout)


def config_of(directory: Path) -> Path:
    """Return apt's configuration of the root in a directory."""
    return directory / "apt.conf"


def _below(url: str, base: str) -> bool:
    # apt writes file:/a for what may be file:///a in its sources.
    def plain(text: str) -> str:
        return re.sub(r"^file:/+", "file:/", text)

    return plain(url).startswith(plain(base.rstrip("/")) + "/")
