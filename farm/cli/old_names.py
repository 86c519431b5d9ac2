"""Names that commands and options had in an earlier release, and what they are called now.

For one release each runs as the new one after a notice, or says what the new one is.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import NamedTuple

import typer

from farm.core.errors import InputError


class Renamed(NamedTuple):
    """What an old command is called now."""

    #: the words in the place of the old name
    now: str
    #: options that have another name now
    options: Mapping[str, str] = {}


WEIGHT = "scheduling.weights."
ADMIN = "scheduler acl join dead-letters audit export score calibrate estimate trace chaos study"
RENAMED = {name: Renamed(f"admin {name}") for name in ADMIN.split()} | {
    "calibrate": Renamed("admin calibrate", {"--output": "--out"}),
    "score": Renamed("admin score", {"-o": "--plot"}),
    "plan": Renamed("plan", {"-o": "--plot"}),
    "undrain": Renamed("drain --undo"),
    "explain": Renamed("job --why"),
    "load": Renamed("submit --format scenario", {"--name": "--prefix"}),
    "runtime-estimate": Renamed("admin estimate --run-time"),
    "schema": Renamed("init --schema"),
    "snapshot": Renamed("status --save -", {"--out": "--save"}),
    "policy": Renamed("set", {"--aging-factor": "scheduling.aging_factor", "--weight": WEIGHT}),
    "invocations": Renamed(
        "jobs --by team",
        {"--queued": "--state=waiting", "--active": "--state=live", "--all": "--state=all"},
    ),
}
#: commands whose words are not those of another one: what to type instead
ANSWERS = {
    "priority": "farm set urgency=5 --job ID (or score=10, priority=-100)",
    "risk": "figure 4.1 of farm admin study thesis --part evaluation",
}


def as_now_called(args: Sequence[str]) -> list[str]:
    """Return a command line in today's words, with a notice if they are others.

    Raises InputError for what must be said in another way.
    """
    name, *rest = args
    if name == "help":
        return as_now_called([*rest, "--help"])
    if name in ANSWERS:
        raise InputError(f"found farm {name}; it is now: {ANSWERS[name]}")
    if name not in RENAMED:
        return list(args)
    now, options = RENAMED[name]
    words = list(_as_keys(rest, options) if name == "policy" else _renamed(rest, options))
    if now != name:
        typer.echo(f"note: farm {name} is now farm {now}", err=True)
    elif words != rest:
        typer.echo(
            f"note: of farm {name}, {' '.join({*rest} - {*words})} is another option", err=True
        )
    return [*now.split(), *words]


def _renamed(words: Sequence[str], options: Mapping[str, str]) -> Iterator[str]:
    for word in words:
        option, equals, value = word.partition("=")
        yield f"{options[option]}{equals}{value}" if option in options else word


def _as_keys(words: Sequence[str], keys: Mapping[str, str]) -> Iterator[str]:
    """Yield what ``farm policy sjf --weight web=2`` says as keys of ``farm set``."""
    left = iter(words)
    for word in left:
        option, equals, value = word.partition("=")
        if (key := keys.get(option)) is not None:
            yield f"{key}{'' if key == WEIGHT else '='}{value if equals else next(left, '')}"
        elif word in ("--redis", "--dir"):
            yield from (word, next(left, ""))
        else:
            yield word if word.startswith("-") else f"scheduling.policy={word}"
