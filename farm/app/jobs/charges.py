"""To which invocation each of a live farm's jobs is charged."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence

from farm.app.long_running.farm_place import check_fair_share
from farm.core.commands import EndJob
from farm.core.errors import InputError, did_you_mean
from farm.core.queues.fair_share.keys import path_extractor
from farm.live.operating.client import FarmClient
from farm.live.store.job_reader import KnownJob

Path = tuple[str, ...]


def parse_invocation(text: str) -> Path:
    """Return the path that is written ``team/user``; raises InputError for an empty one."""
    path = tuple(part for part in text.split("/") if part)
    if not path:
        raise InputError(f"invocation: found {text!r}; allowed: a path such as team/user")
    return path


def charges_of(client: FarmClient) -> Callable[[KnownJob], Path]:
    """Return the function from a job, live or ended, to the invocation that it is charged to.

    Raises InputError for a farm without fair share.
    """
    check_fair_share(client, "invocation")
    path_of = path_extractor(client.status().fair_share_keys)
    return lambda job: path_of(job.job) if isinstance(job, EndJob) else job.path


def unknown_invocation(path: Path, keys: Sequence[str], known: Iterable[Path]) -> str:
    """Say at which level a path leads nowhere, and what is there; ``known``: paths that exist."""
    paths = set(known)
    depth = len(path)
    names: set[str] = set()
    while depth and not names:
        depth -= 1
        names = {one[depth] for one in paths if len(one) > depth and one[:depth] == path[:depth]}
    here = f"in {'/'.join(path[:depth])}" if depth else "at the top"
    key = keys[depth] if depth < len(keys) else "key"
    listed = ", ".join(sorted(names)[:10]) or "none: nothing waits, runs or idles there"
    return (
        f"invocation {'/'.join(path)!r}: found no {key} {path[depth]!r} {here}; "
        f"{did_you_mean(path[depth], names)}there is: {listed}"
    )
