"""The keys by which a job is charged to an invocation.

A fair-share path is a list of key names, outermost first; each name stands for a function from
a job to a string. A job without the attribute gets ``NO_KEY``: all such jobs share one node.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence

from farm.core.errors import ScenarioError, did_you_mean
from farm.core.model import Job

KeyExtractor = Callable[[Job], str]

NO_KEY = "-"
"""The key of a job without the attribute."""

ATTRIBUTE_PREFIX = "attribute:"


#: the attributes in which each of these keys is looked for, the first that a job has
_ATTRIBUTES_OF_KEY: Mapping[str, tuple[str, ...]] = {
    "user": ("user",),
    "team": ("team",),
    "project": ("project",),
    "build": ("build",),
    "correlated-build": ("correlated-build",),
    "invocation": ("invocation",),
    "image": ("image",),
    # upstream's names
    "tool_invocation_id": ("tool_invocation_id",),
    "correlated_invocations_id": ("correlated_invocations_id",),
    "authentication_metadata": ("authentication_metadata", "user"),
}


def attributes_of_key(name: str) -> tuple[str, ...]:
    """Return the attributes in which a key is looked for; empty: it is no attribute of a job."""
    if name.startswith(ATTRIBUTE_PREFIX):
        return (name.removeprefix(ATTRIBUTE_PREFIX),)
    return _ATTRIBUTES_OF_KEY.get(name, ())


def attribute(name: str, instead: str = "") -> KeyExtractor:
    """Return the extractor of one entry of ``job.attributes``, or else of the next name."""
    return lambda job: job.attributes.get(name) or job.attributes.get(instead) or NO_KEY


KEYS: Mapping[str, KeyExtractor] = {
    **{name: attribute(*attributes) for name, attributes in _ATTRIBUTES_OF_KEY.items()},
    "kind": lambda job: job.kind or NO_KEY,
    "matrix": lambda job: job.matrix or NO_KEY,
    "platform": lambda job: str(job.platform),
    "platform.processor": lambda job: job.platform.processor or NO_KEY,
    "platform.virtualized": lambda job: "virtual" if job.platform.needs_virtual else "native",
}
"""The names that a scenario may use, besides ``attribute:NAME`` for any attribute."""


class PathExtractor:
    """The function from a job to its path; without names every path is ().

    Raises ScenarioError for an unknown name.
    """

    def __init__(self, names: Sequence[str]) -> None:
        self.names = tuple(names)
        self._extractors = tuple(_extractor(name) for name in names)

    def __call__(self, job: Job) -> tuple[str, ...]:
        """Return the job's path, outermost key first."""
        return tuple([extract(job) for extract in self._extractors])


def flaw_of_key(name: str) -> str | None:
    """Return what is wrong with the name of a key; None: nothing is."""
    if name in KEYS or (name.startswith(ATTRIBUTE_PREFIX) and name != ATTRIBUTE_PREFIX):
        return None
    return (
        f"unknown key {name!r}; {did_you_mean(name, KEYS)}"
        f"allowed: {', '.join(sorted(KEYS))}, {ATTRIBUTE_PREFIX}NAME"
    )


def _extractor(name: str) -> KeyExtractor:
    flaw = flaw_of_key(name)
    if flaw is not None:
        raise ScenarioError(f"scheduling.fair_share: {flaw}")
    return KEYS.get(name) or attribute(name.removeprefix(ATTRIBUTE_PREFIX))
