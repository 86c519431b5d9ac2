"""The systems whose records can be read; one module for each.

To add one: a module with ``read(reading)``, which yields the attempts, ``knows(object)``, and
``write(attempts)``, which yields its objects; and a line in ``SOURCES``.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from pathlib import Path
from typing import NamedTuple

import msgspec

from farm.records.attempt import Attempt
from farm.records.reading import Reading
from farm.records.sources import (
    bazel,
    buildkite,
    github,
    gitlab,
    jenkins,
    kueue,
    reapi,
    slurm,
    tables,
    taskcluster,
)
from farm.records.writing import dated

DAY = 86_400.0


class Source(NamedTuple):
    """A system's records: how they are read, and how exact they are."""

    read: Callable[[Reading], Iterable[Attempt]]
    knows: Callable[[dict[str, object]], bool]
    write: Callable[[Iterable[Attempt]], Iterable[dict[str, object]]]
    #: of its instants, seconds: shorter waits are no evidence
    resolution: float = 0.001
    #: how long an attempt may be open, seconds: after that, the system has forgotten its end
    longest_open: float = float("inf")


SOURCES = {
    "github": Source(github.read, github.knows, github.write, resolution=1.0, longest_open=5 * DAY),
    "gitlab": Source(gitlab.read, gitlab.knows, gitlab.write),
    "buildkite": Source(buildkite.read, buildkite.knows, buildkite.write),
    "taskcluster": Source(taskcluster.read, taskcluster.knows, taskcluster.write),
    "slurm": Source(slurm.read, slurm.knows, slurm.write, resolution=1.0),
    "reapi": Source(reapi.read, reapi.knows, reapi.write),
    "jenkins": Source(jenkins.read, jenkins.knows, jenkins.write),
    "bazel": Source(bazel.read, bazel.knows, bazel.write),
    "kueue": Source(kueue.read, kueue.knows, kueue.write, resolution=1.0),
}
TABLES: dict[str, Callable[[Reading, Mapping[str, str]], Iterable[Attempt]]] = {
    "csv": tables.read_csv,
    "jsonl": tables.read_jsonl,
}
"""Any other system's, in columns that the user names."""


def export_attempts(source: str, attempts: Sequence[Attempt], path: Path) -> int:
    """Write attempts as a source's JSON, a value a line; return how many there were.

    What the source cannot say is lost: Bazel's log and Kueue's have no runners, those of others
    whole seconds.
    """
    encode = msgspec.json.Encoder().encode
    with path.open("wb") as file:
        for value in SOURCES[source].write(dated(attempts)):
            file.write(encode(value) + b"\n")
    return len(attempts)
