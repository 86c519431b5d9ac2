"""What the result of a run depends on, as a hash: equal keys, equal results."""

from __future__ import annotations

import hashlib
from collections.abc import Iterator
from functools import lru_cache
from pathlib import Path

from farm import __version__
from farm.core.errors import file_access
from farm.plugins.lookup import source_of
from farm.results.run_directory import EVENTS
from farm.scenario import Scenario


def run_key(scenario: Scenario, seed: int) -> str:
    """Return a hash of version, seed, scenario, the files that it reads and the user's own code.

    Of the code it covers the modules that the scenario names, not what they import. Raises
    InputError for a file that cannot be read.
    """
    digest = hashlib.blake2b(digest_size=16)
    contents = (*map(_content, _files(scenario)), *_own_code(scenario))
    for part in (__version__, str(seed), scenario.to_yaml(), *contents):
        digest.update(part.encode() + b"\0")
    return digest.hexdigest()


def _files(scenario: Scenario) -> Iterator[Path]:
    """Yield the traces, and what the runtime estimators learn from."""
    for source in scenario.workload:
        if source.trace is not None:
            yield Path(source.trace.path)
    if scenario.estimates.learn_from is not None:
        learned = Path(scenario.estimates.learn_from)
        yield learned / EVENTS if learned.is_dir() else learned


def _content(path: Path) -> str:
    with file_access(path, "be read"):
        return _hash(path, path.stat().st_mtime_ns)


@lru_cache(maxsize=32)
def _hash(path: Path, _changed_at: int) -> str:
    with path.open("rb") as file:
        return hashlib.file_digest(file, "blake2b").hexdigest()


def _own_code(scenario: Scenario) -> Iterator[str]:
    words = scenario.scheduling
    yield source_of(words.policy, "farm.policies")
    yield source_of(words.balancer, "farm.balancers")
    for pool in scenario.pools:
        if pool.provisioner is not None:
            yield source_of(pool.provisioner.algorithm, "farm.algorithms")
        if pool.behaviour is not None:
            yield source_of(pool.behaviour, "farm.behaviours")
    for source in scenario.workload:
        if source.generator is not None:
            yield source_of(source.generator.function, "farm.generators")
