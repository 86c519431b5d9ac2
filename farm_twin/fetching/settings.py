"""What is read of the environment: the token of an API."""

from __future__ import annotations

import os
from collections.abc import Sequence

from farm.core.errors import InputError


def token_of(names: Sequence[str]) -> tuple[str, str]:
    """Return the first of these variables that is set, and its token. Raises InputError."""
    for name in names:
        if token := os.environ.get(name, "").strip():
            if not (token.isascii() and token.isprintable()):
                raise InputError(f"{name}: found characters that no token has; allowed: the token")
            return name, token
    raise InputError(
        "found no token; allowed: one that may read the jobs, in the environment variable "
        f"{names[0]}"
    )
