"""One error family.

FarmError                  anything this project raises on purpose
├── InputError             the user gave us something wrong (exit code 2)
│   ├── ScenarioError      a scenario file, with its key
│   ├── TraceError         a trace file, with its record or line
│   └── StateError         a state file of `farm estimate`, with its key
├── ServerError            a Redis server that is absent, busy or refuses us (exit code 2)
├── RunError               a run that could not be carried through (exit code 1)
└── InvariantError         our own bug: the farm's state contradicts itself
"""

from __future__ import annotations

from collections.abc import Iterable
from difflib import get_close_matches

import msgspec

UNREADABLE = (msgspec.DecodeError, UnicodeDecodeError, RecursionError)
"""What msgspec raises for a text that is no JSON, or not what it was to be."""


class FarmError(Exception):
    """Anything this project raises on purpose; its text is one message for a person.

    ``exit_code`` is what the command line ends with.

    >>> issubclass(farm.InputError, farm.FarmError), farm.InputError.exit_code
    (True, 2)
    """

    exit_code = 1


class InputError(FarmError):
    """The user gave something wrong: the message says where, what was found, what is allowed.

    >>> farm.simulate("quickstart", pools__linux__builders=-1)
    Traceback (most recent call last):
        ...
    farm.core.errors.ScenarioError: pools.linux.builders: found -1; ...
    """

    exit_code = 2


class ScenarioError(InputError):
    """A scenario that cannot be run."""


class TraceError(InputError):
    """A trace that cannot be read: the message names the record or line."""


class StateError(InputError):
    """A farm state file that cannot be used: the message names the key."""


class ServerError(FarmError):
    """A Redis server that cannot be started, reached or used.

    >>> farm.run("quickstart", redis="redis://127.0.0.1:1/0")
    Traceback (most recent call last):
        ...
    farm.core.errors.ServerError: Redis at redis://127.0.0.1:1/0 cannot be reached: ...
    """

    exit_code = 2


class RunError(FarmError):
    """A run that began but could not be carried through.

    >>> farm.RunError.exit_code
    1
    """


class InvariantError(FarmError):
    """The farm's own state contradicts itself: a bug in this project, never the user's fault."""


def nearest(word: str, known: Iterable[str], cutoff: float = 0.6) -> str | None:
    """Return the known word that the given one was probably meant to be."""
    close = get_close_matches(word[:100], list(known), n=1, cutoff=cutoff)
    return close[0] if close else None


def did_you_mean(word: str, known: Iterable[str]) -> str:
    """Return ``did you mean X? `` for a message that goes on with what is allowed, or nothing."""
    near = nearest(word, known)
    return f"did you mean {near}? " if near else ""
