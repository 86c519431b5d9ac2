"""What commands read and set in the environment: the server's password, colours, threads."""

from __future__ import annotations

import os
from collections.abc import Mapping
from pathlib import Path
from urllib.parse import quote, urlsplit, urlunsplit

from farm.core.errors import InputError
from farm.whole_files import read_whole

MAX_PASSWORD = 10_000
"""Bytes of a file with a password."""
#: by which rich takes a pipe for a terminal
COLOUR_VARIABLES = ("FORCE_COLOR", "TTY_COMPATIBLE", "TTY_INTERACTIVE")


COMPLETION = "_FARM_COMPLETE"
"""Set by a shell that asks ``farm`` how a word may go on."""
LINES_TO_COMPLETE = ("COMP_WORDS", "_TYPER_COMPLETE_ARGS")
"""Where shells put the line that is typed."""


def is_completing() -> bool:
    """Return whether a shell asks how a word may go on."""
    return COMPLETION in os.environ


def completed_words() -> list[str]:
    """Return the words of the line that is typed in the shell."""
    return " ".join(os.environ.get(name, "") for name in LINES_TO_COMPLETE).split()


def with_password(
    url: str | None, variable: str = "FARM_REDIS_PASSWORD", environ: Mapping[str, str] | None = None
) -> str | None:
    """Return the URL with its user's password from the environment or a file.

    A URL with a password (even an empty one, ``user:@host``) is returned unchanged, and so is an
    invalid URL. Raises InputError for a file that cannot be read.
    """
    env = os.environ if environ is None else environ
    password, file = env.get(variable) or "", env.get(f"{variable}_FILE")
    try:
        parts = urlsplit(url or "")
    except ValueError:  # connecting gives the message
        return url
    if not parts.scheme or parts.password is not None or not (password or file):
        return url or None
    if file:
        try:
            password = read_whole(Path(file), MAX_PASSWORD).decode("utf-8").strip()
        except (OSError, UnicodeError) as error:
            raise InputError(f"{variable}_FILE: {file} cannot be read ({error})") from None
    user, _, place = parts.netloc.rpartition("@")
    return urlunsplit(parts._replace(netloc=f"{user}:{quote(password, safe='')}@{place}"))


def wants_colours() -> bool:
    """Return whether colours are asked for, or spoken of, also for what is no terminal."""
    return any(os.environ.get(name) for name in COLOUR_VARIABLES)


def use_one_thread_for_matrices() -> None:
    """Let NumPy's linear algebra use one thread, unless the environment says how many.

    It would start one for each processor when NumPy is imported, and these look for work for a
    while. That costs a short command a fifth of its processor time, and the farm has no matrices
    that are worth a second thread. With one thread sums are also added up in one order everywhere.
    """
    os.environ.setdefault("OPENBLAS_NUM_THREADS", "1")


def use_no_plugins_of_pydantic() -> None:
    """Let pydantic look for no plugins of its own, unless the environment says which.

    It would read the entry points of every installed package, which takes as long as a short
    command's work, and the farm has nothing for such a plugin to do.
    """
    os.environ.setdefault("PYDANTIC_DISABLE_PLUGINS", "__all__")
