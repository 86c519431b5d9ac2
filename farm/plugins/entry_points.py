"""Entry points: how packages beside the farm add to it, whether they are its own or a user's.

=================  =============================================================================
``farm.commands``  commands of ``farm``: functions, or Typer apps
``farm.records``   what is done with the records of a real farm: functions of plain values
``farm.sources``   systems whose records can be read: each a ``farm.records.source.Source``
=================  =============================================================================

What is loaded is loaded when it is used: looking for entry points takes longer than many commands.
"""

from __future__ import annotations

from collections.abc import Iterable
from pathlib import Path
from typing import TYPE_CHECKING, Any

from farm.core.errors import InputError

if TYPE_CHECKING:
    from importlib.metadata import EntryPoint

DISTRIBUTION = "build-farm-emulator"
#: the group by which a package adds commands
COMMANDS = "farm.commands"
#: the group by which a package answers questions about the records of a real farm
RECORDS = "farm.records"
#: the group of the systems whose records can be read, and written
SOURCES = "farm.sources"


def entries(group: str) -> list[EntryPoint]:
    """Return the entry points of a group: the farm's own packages' by name, then all others'.

    A checkout that is not installed has those of its pyproject.toml.
    """
    from importlib.metadata import entry_points  # noqa: PLC0415 - slow, and few commands need it

    own = [entry for entry in _own() if entry.group == group]
    others = [entry for entry in entry_points(group=group) if entry not in own]
    return [*sorted(own), *sorted(others)]


def is_installed() -> bool:
    """Return whether this is an installation; else it is a checkout, read where it lies."""
    from importlib.metadata import (  # noqa: PLC0415 - as above
        PackageNotFoundError,
        distribution,
    )

    try:
        distribution(DISTRIBUTION)
    except PackageNotFoundError:
        return False
    return True


def _own() -> Iterable[EntryPoint]:
    """Return the entry points of the packages that come with the farm."""
    from importlib.metadata import (  # noqa: PLC0415 - as above
        EntryPoint,
        PackageNotFoundError,
        distribution,
    )

    try:
        return distribution(DISTRIBUTION).entry_points
    except PackageNotFoundError:
        project = Path(__file__).parents[2] / "pyproject.toml"
    if not project.is_file():
        return ()
    import tomllib  # noqa: PLC0415 - only a checkout that is not installed is read

    groups = tomllib.loads(project.read_text("utf-8"))["project"]["entry-points"]
    return [
        EntryPoint(name, value, group)
        for group, values in groups.items()
        for name, value in values.items()
    ]


def loaded(entry: EntryPoint) -> Any:
    """Return what an entry point names. Raises InputError if it cannot be loaded."""
    try:
        return entry.load()
    except Exception as error:
        raise InputError(
            f"{entry.name} of {entry.group} cannot be loaded from {entry.value}: "
            f"{type(error).__name__}: {error}"
        ) from error


def on_records(name: str) -> Any:
    """Return what a package beside the farm does with the records of a real farm, by its name.

    Raises InputError if no package that is installed does this.
    """
    for entry in entries(RECORDS):
        if entry.name == name:
            return loaded(entry)
    raise InputError(
        f"records: found no package for {name} in the group {RECORDS}; allowed: an installation "
        "that has one, as build-farm-emulator's has"
    )
