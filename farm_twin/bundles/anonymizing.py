"""A bundle without names: as one may be handed on."""

from __future__ import annotations

import hmac
import secrets
from collections import Counter

import msgspec

from farm.core.jobs.groups import group_of
from farm.core.jobs.needs import renamed
from farm.records.attempt import Attempt
from farm.records.bundle import Bundle
from farm.records.reading import UNREADABLE, SourceFile

NAMES = ("id", "job", "runner", "kind", "matrix", "user")
"""What an anonymized bundle has hashes of, beside the values of attributes, and groups' names."""


def anonymized(bundle: Bundle) -> Bundle:
    """Return the bundle with every name replaced by a keyed hash; labels of runners stay.

    The key is drawn, and forgotten: names are the same within the bundle and nowhere else.
    """
    key = secrets.token_bytes(32)
    known: dict[str, str] = {"": ""}

    def hashed(name: str) -> str:
        if name not in known:
            known[name] = hmac.new(key, name.encode(), "sha256").hexdigest()[:12]
        return known[name]

    def each(one: Attempt) -> Attempt:
        names = {field: hashed(getattr(one, field)) for field in NAMES}
        attributes = {name: hashed(text) for name, text in one.attributes.items()}
        if one.level:  # a number, and no name: jobs go by it
            attributes["level"] = str(one.level)
        needs = renamed(one.needs, hashed)
        group = group_of(one.group).name
        # how it limits its jobs is no name
        group = f"{hashed(group)}{one.group[len(group) :]}"
        return msgspec.structs.replace(
            one, attributes=attributes, needs=needs, group=group, **names
        )

    files = [
        SourceFile(f"file-{number}", "", one.bytes)
        for number, one in enumerate(bundle.manifest.files, 1)
    ]
    left_out: Counter[str] = Counter()
    for why, count in bundle.manifest.left_out.items():
        # what follows is a record's own text, and the path of its file
        left_out[UNREADABLE if why.startswith(UNREADABLE) else why] += count
    manifest = msgspec.structs.replace(
        bundle.manifest, anonymized=True, files=files, left_out=dict(left_out)
    )
    return Bundle(manifest, [each(one) for one in bundle.attempts])
