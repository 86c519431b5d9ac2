"""What a class declares of itself, which does not hold for classes that are derived from it."""

from __future__ import annotations

from typing import Any


def own_declaration(value: object, name: str, default: Any = None) -> Any:
    """Return an attribute that the class of a value declares itself, not one that it inherits.

    Some declarations promise how a class's own methods behave: until when its plan stays, which
    formula says the same, what its estimates read. A class that is derived from it may have other
    methods, so it has to promise again. Without a promise nothing is taken for granted.
    """
    return vars(type(value)).get(name, default)
