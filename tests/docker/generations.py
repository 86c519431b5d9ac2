"""The two generations of Compose: the old one (1.29, Python) and the new one (v2, Go).

A machine has one of them, as a rule. Debian bookworm's is the old one; the new one is taken from
the next Debian's archive, off the machine's own mirror, with a package list and a folder of its
own: nothing of the system is changed.
"""

from __future__ import annotations

import os
import shutil
import subprocess
import tempfile
from collections.abc import Iterator
from pathlib import Path
from typing import NamedTuple

from tests.docker.engine import docker_command

OLD, NEW = 1, 2
PACKAGE, SUITE = "docker-compose", "trixie"
PLUGIN = "usr/libexec/docker/cli-plugins/docker-compose"
KEYRING = Path("/usr/share/keyrings/debian-archive-keyring.gpg")


class Compose(NamedTuple):
    """A command line of Compose."""

    command: tuple[str, ...]
    version: str

    @property
    def generation(self) -> int:
        """OLD or NEW (whatever comes after)."""
        return OLD if self.version.startswith("1.") else NEW


def generations(cache: Path) -> dict[int, Compose]:
    """Return what there is, having fetched the new one into the cache if only the old is there."""
    found = _found(cache)
    if set(found) == {OLD} and fetch(cache):
        found = _found(cache)
    return found


def fetch(folder: Path) -> bool:
    """Put the new one into the folder; False where that cannot be done (no Debian, no mirror)."""
    mirror = _mirror()
    if mirror is None or shutil.which("dpkg-deb") is None:
        return False
    try:
        with tempfile.TemporaryDirectory(prefix="farm-compose-") as place:
            _fetch(mirror, Path(place), folder)
    except (OSError, subprocess.SubprocessError):
        return False
    return True


def _found(cache: Path) -> dict[int, Compose]:
    asked = filter(None, map(_asked, _candidates(cache)))
    found: dict[int, Compose] = {}
    for compose in asked:
        found.setdefault(compose.generation, compose)
    return found


def _candidates(cache: Path) -> Iterator[tuple[str, ...]]:
    if old := shutil.which("docker-compose"):
        yield (old,)
    yield (docker_command(), "compose")
    yield (str(cache / PACKAGE),)


def _asked(command: tuple[str, ...]) -> Compose | None:
    try:
        run = subprocess.run([*command, "version", "--short"], capture_output=True, text=True)
    except OSError:
        return None
    version = run.stdout.strip().removeprefix("v")
    return Compose(command, version) if run.returncode == 0 and version[:1].isdigit() else None


def _mirror() -> str | None:
    """Return where this machine gets Debian from; None if it is none, or says nothing of it."""
    if shutil.which("apt-get") is None:
        return None
    run = subprocess.run(
        ["apt-get", "indextargets", "--format", "$(RELEASE) $(COMPONENT) $(REPO_URI)",
         "Created-By: Packages"],
        capture_output=True, text=True,
    )  # fmt: skip
    for line in run.stdout.splitlines():
        release, _, rest = line.partition(" ")
        component, _, address = rest.partition(" ")
        if (release, component) == (_codename(), "main"):
            return address
    return None


def _codename() -> str:
    lines = Path("/etc/os-release").read_text(encoding="utf-8").splitlines()
    values = dict(line.split("=", 1) for line in lines if "=" in line)
    return values.get("VERSION_CODENAME", "").strip('"')


def _fetch(mirror: str, place: Path, folder: Path) -> None:
    for part in ("lists/partial", "cache/archives/partial"):
        (place / part).mkdir(parents=True)
    (place / "status").touch()
    signed = f"[signed-by={KEYRING}] " if KEYRING.exists() else ""
    (place / "sources.list").write_text(f"deb {signed}{mirror} {SUITE} main\n")
    settings = {
        "Dir::Etc::SourceList": place / "sources.list",
        "Dir::Etc::SourceParts": "/dev/null",
        "Dir::State::Lists": place / "lists",
        "Dir::State::status": place / "status",
        "Dir::Cache": place / "cache",
        "APT::Sandbox::User": "root" if os.geteuid() == 0 else "",
    }
    apt = ["apt-get", "-qq", *(f"-o{name}={value}" for name, value in settings.items())]
    _run([*apt, "update"], place)
    _run([*apt, "download", PACKAGE], place)
    (package,) = place.glob(f"{PACKAGE}_*.deb")
    _run(["dpkg-deb", "-x", str(package), "unpacked"], place)
    folder.mkdir(parents=True, exist_ok=True)
    shutil.copy2(place / "unpacked" / PLUGIN, folder / PACKAGE)


def _run(command: list[str], place: Path) -> None:
    subprocess.run(command, cwd=place, check=True, capture_output=True, timeout=120)
