"""Selection of a live farm's jobs."""

from __future__ import annotations

import re
import shlex
from collections.abc import Callable, Iterable, Iterator, Sequence
from fnmatch import fnmatchcase
from itertools import islice
from typing import Literal

import msgspec

from farm.app.jobs.sources import parse_platform
from farm.app.long_running.farm_place import check_fair_share
from farm.core.commands import EndJob
from farm.core.errors import InputError, ServerError, did_you_mean, not_among
from farm.core.queues.fair_share.path_keys import PathExtractor
from farm.live.operating.client import FarmClient
from farm.live.store.job_reader import Group, KnownJob, state_of

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
    path_of = PathExtractor(client.status().fair_share_keys)
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


JobState = Literal[
    "all", "live", "blocked", "waiting", "running", "ended", "succeeded", "failed", "cancelled"
]
"""The values of ``state`` in ``--where``."""
_GROUPS: dict[str, tuple[Group, ...]] = {
    "all": ("blocked", "waiting", "running", "ended"),
    "live": ("blocked", "waiting", "running"),
    "blocked": ("blocked",),
    "waiting": ("waiting",),
    "running": ("running",),
}
"""Where jobs in a state are found; those in any other have ended."""


TEXTS = ("match", "user", "kind", "matrix", "platform", "pool", "invocation")
#: how ``--where`` names them
KEYS = ("id", *TEXTS[1:])


class JobFilter(msgspec.Struct, frozen=True, kw_only=True):
    """The conditions on a job; None: any value.

    Attributes:
        match: only ids that match this shell pattern, such as 'a-*'.
        pool: only jobs that run or ended on this pool's builders.
        user: only jobs of this user (attribute user).
        kind: only jobs of this kind.
        matrix: only jobs of this matrix.
        platform: only this platform, such as amd64/virtual.
        invocation: only jobs charged to this invocation, or below it.
        attribute: only with this attribute; repeatable.
    """

    state: JobState = "all"
    match: str | None = None
    pool: str | None = None
    user: str | None = None
    kind: str | None = None
    matrix: str | None = None
    platform: str | None = None
    invocation: str | None = None
    attribute: dict[str, str] = {}

    @property
    def names_some(self) -> bool:
        """Whether there are other criteria than a state."""
        return bool(self._texts() or self.attribute)

    def conditions(self) -> str:
        """Return what jobs are like, beside their state, for a message."""
        return ", ".join(self._conditions())

    def _conditions(self) -> list[str]:
        texts = [f"{'id' if n == 'match' else n}={value}" for n, value in self._texts().items()]
        return texts + [f"attribute.{key}={value}" for key, value in self.attribute.items()]

    def words(self) -> str:
        """Return the filter as it is written on a command line."""
        texts = [f"state={self.state}", *self._conditions()]
        if not any("," in text for text in texts):
            texts = [",".join(texts)]
        return shlex.join(word for text in texts for word in ("--where", text))

    def _texts(self) -> dict[str, str]:
        return {name: value for name in TEXTS if (value := getattr(self, name)) is not None}

    def where(self, texts: Sequence[str], states: Sequence[str]) -> JobFilter:
        """Return the filter with what ``--where`` says, too: ``user=bob,state=waiting``.

        Raises InputError for an unknown key, or a state that is not among ``states``.
        """
        changes: dict[str, object] = {}
        attributes = dict(self.attribute)
        for text in (part for one in texts for part in re.split(r",(?=[\w.-]+=)", one)):
            key, equals, value = text.partition("=")
            if not equals or not value:
                raise InputError(f"--where: found {text!r:.60}; allowed: KEY=VALUE,KEY=VALUE")
            if key.startswith("attribute."):
                attributes[key.removeprefix("attribute.")] = value
            elif key == "state" and value in states:
                changes["state"] = value
            elif key == "state":
                raise InputError(f"--where state: {not_among(value, states)}")
            elif key in KEYS:
                changes["match" if key == "id" else key] = value
            else:
                raise InputError(f"--where: {not_among(key, (*KEYS, 'state', 'attribute.NAME'))}")
        return msgspec.structs.replace(self, **changes, attribute=attributes)

    def found(
        self,
        client: FarmClient,
        *,
        stable: bool,
        after: str | None = None,
        offset: int = 0,
        warn: Callable[[str], object] = str,
    ) -> Iterator[KnownJob]:
        """Return the farm's jobs that are like this, each once, but for the first ``offset``.

        ``stable``: in order of submission (``after`` this id), whatever happens in between; else
        waiting ones in dispatch order, then running ones, then ended ones, the newest first.
        ``warn`` is called if that order is not known.
        """
        is_wanted = _check_of(self, client)
        if not stable:
            found = filter(is_wanted, _by_group(client, self.state, warn))
            return islice(_each_once(found), offset, None)
        if self.state == "all" and not self.names_some:
            return client.submitted(offset, after)  # the server can count those
        return islice(filter(is_wanted, client.submitted(0, after)), offset, None)


def _check_of(wanted: JobFilter, client: FarmClient) -> Callable[[KnownJob], bool]:
    """Return a function that says whether a job is as wanted, ready for many jobs."""
    attributes = dict(wanted.attribute)
    if wanted.user is not None:
        attributes["user"] = wanted.user
    platform = wanted.platform
    if platform is not None:
        platform = str(parse_platform(platform, "platform", None))
    if wanted.pool is not None and wanted.pool not in (known := client.pools()):
        raise InputError(f"pool: {not_among(wanted.pool, sorted(known))}")
    path: tuple[str, ...] = ()
    if wanted.invocation is not None:
        path, path_of = parse_invocation(wanted.invocation), charges_of(client)

    def is_wanted(job: KnownJob) -> bool:
        it = job.job
        return (
            _is_in(job, wanted.state)
            and (wanted.match is None or fnmatchcase(it.id, wanted.match))
            and (wanted.kind is None or it.kind == wanted.kind)
            and (wanted.matrix is None or it.matrix == wanted.matrix)
            and (platform is None or str(it.platform) == platform)
            and all(it.attributes.get(k) == v for k, v in attributes.items())
            and (wanted.pool is None or job.pool == wanted.pool)
            and (not path or path_of(job)[: len(path)] == path)
        )

    return is_wanted


def _each_once(jobs: Iterator[KnownJob]) -> Iterator[KnownJob]:
    """Leave out jobs that changed group since they were read: they are in a later one, too."""
    seen: set[str] = set()
    for job in jobs:
        if job.job.id not in seen:
            seen.add(job.job.id)
            yield job


def _by_group(
    client: FarmClient, state: JobState, warn: Callable[[str], object]
) -> Iterator[KnownJob]:
    for group in _GROUPS.get(state, ("ended",)):
        yield from _in_dispatch_order(client, warn) if group == "waiting" else client.jobs(group)


def _in_dispatch_order(client: FarmClient, warn: Callable[[str], object]) -> Iterator[KnownJob]:
    """Yield the waiting jobs, platform by platform; under fair share the scheduler knows the order.

    Those that came since it was asked follow (jobs may be met twice).
    """
    listed = client.jobs("waiting")
    first = next(listed, None)
    if first is None:
        return
    if not isinstance(first, EndJob) and first.path and client.is_attended():
        try:
            order = [record.job.id for record in client.image().snapshot.waiting]
        except ServerError as error:
            warn(f"{error}; waiting jobs are not in order")
            order = []
        yield from (job for job in client.jobs_of(order) if state_of(job) == "waiting")
    yield first
    yield from listed


def _is_in(job: KnownJob, state: JobState) -> bool:
    if state == "all":
        return True
    if state in ("live", "ended"):
        return isinstance(job, EndJob) == (state == "ended")
    if state == "running":
        return not isinstance(job, EndJob) and job.builder is not None
    return state_of(job) == state
