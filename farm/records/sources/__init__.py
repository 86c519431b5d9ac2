"""The systems whose records can be read; one module for each.

To add one: a module with ``read(reading)``, which yields the attempts, ``knows(object)``, and
``write(attempts)``, which yields its objects; and a line in ``SOURCES``.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from typing import Any, NamedTuple

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

DAY = 86_400.0


class Source(NamedTuple):
    """A system's records: how they are read, and how exact they are."""

    read: Callable[[Reading], Iterable[Attempt]]
    knows: Callable[[dict[str, Any]], bool]
    write: Callable[[Iterable[Attempt]], Iterable[dict[str, Any]]]
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
