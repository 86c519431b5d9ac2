"""What a case may say: a key that no test reads is a mistake, unless it only explains the case."""

from __future__ import annotations

from collections.abc import Collection, Mapping
from typing import Any

#: explain a case, or name its source
EXPLAINING = {
    "about",
    "asserted",
    "comment",
    "id",
    "name",
    "note",
    "origin",
    "remark",
    "source",
    "tags",
    "title",
    "upstream_test_state",
    "why",
}


def refuse_unknown(what: str, given: Mapping[str, Any], known: Collection[str]) -> None:
    """Raise AssertionError if a key is neither known nor an explanation (text of several words)."""
    unknown = [
        key
        for key, value in given.items()
        if key not in known and key not in EXPLAINING and not _is_prose(value)
    ]
    assert not unknown, (
        f"{what}: unknown key {', '.join(unknown)}; known: {', '.join(sorted(known))}"
    )


def _is_prose(value: Any) -> bool:
    return isinstance(value, str) and " " in value.strip()
