"""The exceptions of this project.

FarmError                  base of all of them
├── InputError             invalid input (exit code 2)
│   ├── ScenarioError      a scenario file, with its key
│   ├── TraceError         a trace file, with its record or line
│   └── StateError         a state file of `farm admin estimate`, with its key
├── ServerError            a Redis server that is absent, busy or refuses access (exit code 2)
├── RunError               a run that failed (exit code 1)
└── InvariantError         a bug in this project: the farm's state is inconsistent
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from contextlib import contextmanager
from difflib import get_close_matches
from typing import Self

#: what is allowed, by the type of pydantic's error
_ALLOWED = {
    "int_type": "a whole number",
    "int_parsing": "a whole number",
    "float_type": "a number",
    "bool_type": "true or false",
    "string_type": "text (put it in quotes)",
    "string_too_short": "some text",
    "string_too_long": "shorter text",
    # names of runs may have letters of any script
    "string_pattern_mismatch": "letters, digits, dots, dashes and underscores (letters: a to z)",
    "finite_number": "a finite number",
    "tuple_type": "a list",
    "dict_type": "a mapping of keys to values",
    "model_type": "a mapping of keys to values",
    "greater_than": "more than {gt:g}",
    "greater_than_equal": "{ge:g} or more",
    "less_than_equal": "{le:g} or less",
    "int_from_float": "a whole number",
    "int_parsing_size": "a smaller whole number",
    "float_parsing": "a number",
    "bool_parsing": "true or false",
    "less_than": "less than {lt:g}",
    "too_short": "a longer list",
    "too_long": "a shorter list",
}


class FarmError(Exception):
    """Base of all exceptions of this project; its text is one message for the user.

    ``exit_code`` is the exit code of the command line.

    >>> issubclass(farm.InputError, farm.FarmError), farm.InputError.exit_code
    (True, 2)
    """

    exit_code = 1


class InputError(FarmError):
    """Invalid input: the message says where, what was found, and what is allowed.

    >>> farm.simulate("quickstart", pools__linux__builders=-1)
    Traceback (most recent call last):
        ...
    farm.core.errors.ScenarioError: pools.linux.builders: found -1; ...
    """

    exit_code = 2


class ScenarioError(InputError):
    """A scenario that cannot be run; ``key`` is the dotted key that is wrong, if one is."""

    key = ""

    @classmethod
    def of(cls, key: str, problem: str) -> Self:
        """Return the error of a key: ``KEY: PROBLEM``."""
        error = cls(f"{key}: {problem}")
        error.key = key
        return error


class TraceError(InputError):
    """A trace that cannot be read: the message names the record or line."""


class StateError(InputError):
    """A farm state file that cannot be used: the message names the key."""


class ServerError(FarmError):
    """A Redis server that cannot be started, reached or used.

    >>> farm.run("quickstart", redis="redis://127.0.0.1:1/0")
    Traceback (most recent call last):
        ...
    farm.core.errors.ServerError: Redis at redis://127.0.0.1:1/0 cannot be reached...
    """

    exit_code = 2


class RunError(FarmError):
    """A run that was started but could not be completed.

    >>> farm.RunError.exit_code
    1
    """


class InvariantError(FarmError):
    """The farm's state is inconsistent: a bug in this project, never the user's fault."""


def nearest(word: str, known: Iterable[str], cutoff: float = 0.6) -> str | None:
    """Return the known word that ``word`` was probably meant to be."""
    close = get_close_matches(word[:100], list(known), n=1, cutoff=cutoff)
    return close[0] if close else None


@contextmanager
def file_access(
    where: object, what: str = "be written", error: type[FarmError] = InputError
) -> Iterator[None]:
    """Turn the system's error about a file into a message: ``WHERE: cannot be written: …``."""
    try:
        yield
    except OSError as found:
        raise error(f"{where}: cannot {what}: {found.strerror or found}") from None


def not_among(found: str, allowed: Iterable[str]) -> str:
    """Return ``found 'X'; did you mean Y? allowed: …``, the end of a message."""
    names = list(allowed)
    return f"found {found!r:.60}; {did_you_mean(found, names)}allowed: {', '.join(names)}"


def allowed_by(problem: Mapping[str, object]) -> str:
    """Return what is allowed, by one of pydantic's errors: its ``type``, ``ctx`` and ``msg``."""
    if (ours := _ALLOWED.get(str(problem["type"]))) is not None:
        context = problem.get("ctx")
        return ours.format(**context) if isinstance(context, Mapping) else ours
    return str(problem["msg"]).removeprefix("Input should be ").removeprefix("a valid ")


def did_you_mean(word: str, known: Iterable[str]) -> str:
    """Return ``did you mean X? ``, to be followed by what is allowed, or an empty string."""
    near = nearest(word, known)
    return f"did you mean {near}? " if near else ""
