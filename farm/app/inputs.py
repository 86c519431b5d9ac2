"""What a scenario reads: files, and modules of the user's own; with their digests."""

from __future__ import annotations

import hashlib
from collections.abc import Collection, Iterator, Mapping
from functools import lru_cache
from pathlib import Path

from farm.core.dispatching.balancers import RANKINGS
from farm.core.errors import file_access
from farm.core.policies import POLICIES
from farm.plugins.lookup import source_of
from farm.records.bundle import is_bundle
from farm.results.run_directory import EVENTS, SCENARIO, SUMMARY, digest_of
from farm.scenario import Scenario
from farm.whole_files import ending
from provisioner.algorithms.registry import ALGORITHMS


def files_of(scenario: Scenario) -> Iterator[Path]:
    """Yield the traces, and what the runtime estimators learn from.

    A calibration is not among them: its table is in the scenario.
    """
    for source in scenario.workload:
        if source.trace is not None:
            trace = Path(source.trace.path)  # a file, or a bundle's directory
            yield from sorted(trace.iterdir()) if trace.is_dir() else (trace,)
    if scenario.estimates.learn_from is None:
        return
    learned = Path(scenario.estimates.learn_from)
    if not learned.is_dir():
        yield learned
    elif is_bundle(learned):
        yield from sorted(learned.iterdir())
    elif (learned / EVENTS).exists():
        yield learned / EVENTS
    else:  # a run that is kept as its inputs
        yield learned / SCENARIO
        yield learned / SUMMARY


def code_of(scenario: Scenario) -> Iterator[tuple[str, str]]:
    """Yield what the scenario names of the user's own, with the source of its module.

    What these modules import is not looked at. Where there is no source, it is empty.
    """
    for group, name in _named_code(scenario):
        if name not in _OWN_NAMES.get(group, ()):
            yield name, source_of(name, group)


def _named_code(scenario: Scenario) -> Iterator[tuple[str, str]]:
    """Yield the group of entry points, and the name, of all that may be of the user's own."""
    scheduling = scenario.scheduling
    yield "farm.policies", scheduling.policy
    yield "farm.balancers", scheduling.balancer
    for pool in scenario.pools:
        if pool.provisioner is not None:
            yield "farm.algorithms", pool.provisioner.algorithm
        if pool.behaviour is not None:
            yield "farm.behaviours", pool.behaviour
    for source in scenario.workload:
        if source.generator is not None:
            yield "farm.generators", source.generator.function


#: names of the farm itself, for which installed entry points need not be looked through
_OWN_NAMES: Mapping[str, Collection[str]] = {
    "farm.policies": POLICIES,
    "farm.balancers": RANKINGS,
    "farm.algorithms": ALGORITHMS,
}


def digest_of_file(path: Path) -> str:
    """Return the digest of a file's content. Raises InputError for one that cannot be read."""
    with file_access(path, "be read"):
        return _digest(path, path.stat().st_mtime_ns)


@lru_cache(maxsize=32)
def _digest(path: Path, _changed_at: int) -> str:
    with ending(path).open("rb") as file:
        return hashlib.file_digest(file, "sha256").hexdigest()


def digests_of(scenario: Scenario) -> dict[str, str]:
    """Return the digests of all that the scenario reads: of files by path, of modules by name.

    A pipe, which is empty by now, and a file that is not there are left out.
    """
    digests = {str(path): digest_of_file(path) for path in files_of(scenario) if path.is_file()}
    for name, source in code_of(scenario):
        if source:
            digests[name] = digest_of(source.encode())
    return digests


def can_be_read_again(scenario: Scenario) -> bool:
    """Return whether all that the scenario reads is in files: a pipe can be read once."""
    return all(path.is_file() for path in files_of(scenario))
