"""What a case may say: a key that no test reads is a mistake, unless it only explains the case."""

from __future__ import annotations

from collections.abc import Collection, Mapping
from typing import Any

#: explain a case, or name its source
EXPLAINING = {
    "about",
    "asserted",
    "comment",
    "description",
    "explanation",
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
    """Raise AssertionError if a key is neither known nor one of those that explain."""
    unknown = given.keys() - known - EXPLAINING
    assert not unknown, (
        f"{what}: unknown key {', '.join(sorted(unknown))}; known: {', '.join(sorted(known))}"
    )
