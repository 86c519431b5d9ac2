"""Every Redis key of a farm, with its type and meaning. No key is spelled anywhere else.

===================== ======== =====================================================
key (after prefix)     type     meaning
===================== ======== =====================================================
lease                  string   the scheduler in charge and its token (JSON); it expires
fence                  hash     ``epoch`` counts the schedulers that took charge, ``commits`` their
                                transactions; only those of the latest epoch are carried out;
                                ``holder`` names the last one, until it releases the farm
meta                   hash     ``version``, ``speed``, ``cursor`` (stream -> last entry read,
                                JSON) and ``at`` (farm time then), ``clock`` (the same by the clock
                                of the scheduler's machine); of a long-running farm also
                                ``counts`` (JSON), ``rules`` (the scheduling that the jobs' keys
                                are of) and ``logged`` (the last commit with event log lines)
log                    stream   event log lines of the latest commits (field ``l``; ``n``: the
                                commit's number, ``p``: that of the lines before), until they are
                                on disk (a farm that stays up)
reports                stream   reports of builder hosts: themselves, their builders and attempts;
                                field ``m`` is an Envelope, here as in the other streams
submissions            stream   submitted jobs
requests               stream   what operators want: cancel, drain, undrain, another priority
plans                  stream   what provisioners decided
questions              stream   what readers ask
platforms              set      names of the platforms that ever had a pending queue
pending:<platform>     zset     waiting jobs in policy order (score 0, member: encoded key and
                                job id): ZCARD is the queue's depth, ZRANGE 0 0 its head
jobs                   hash     job id -> JobRecord (JSON), for every job that has not ended
lives                  hash     builder host -> HostLife (JSON): which builders it plays, for a
                                scheduler that starts again (a farm that stays up)
running                zset     ids of the jobs that are on builders, by the instants of dispatch
builders               hash     builder id -> BuilderRecord (JSON), for every builder that is there
results                hash     job id -> EndJob (JSON), the whole story of every ended job
ended                  list     ids of ended jobs, the last one last (an id may stand there twice)
submitted              zset     ids of all jobs that are known, live and ended, in the order of
                                their submission: an order that never changes
tries:<job>            list     Try (JSON) for every void attempt of the job, the
                                last one last (an attempt may stand there twice)
pools                  hash     pool -> PoolReport (JSON): for provisioners, a few times
                                per second
wanted                 hash     builder id -> Play (JSON), for requested builders that await a host
                                with room
requested              hash     builder id -> Play (JSON), for requested builders that hosts of
                                their own are to play (containers)
hosts                  hash     builder host -> HostRecord (JSON), for every host that is there
status                 string   FarmStatus (JSON), renewed a few times per second
learned                string   SchedulerMemory (JSON): what the scheduler of a farm that stays up
                                knows of the past (run times, fair-share trees), for its next one
provisioner            hash     pool -> what its provisioner remembers (JSON), for its next start
provisioner:lease      string   the provisioner in charge, like ``lease``
dead-letters           list     DeadLetter (JSON), for the last 1,000 messages that were refused,
                                the newest first
refused                hash     reason -> how many messages were refused for it
reply:<token>          list     the answer to one question; it expires
image:<name>           list     an image of the whole farm (JSON), in pieces, named in answers
celery:…               various  what Celery's transport keeps (one list per builder host: its queue)
===================== ======== =====================================================
"""

from __future__ import annotations

import math
import re
import struct
from collections.abc import Iterable, Iterator
from typing import Literal, get_args

import msgspec

from farm.live.settings import DEFAULT_PREFIX

UNREADABLE = (msgspec.DecodeError, UnicodeDecodeError, RecursionError)
"""What decoding raises for a value that is not JSON, or not of its key's type."""

Stream = Literal["reports", "submissions", "requests", "plans", "questions"]
"""The streams to the scheduler, by role; only the scheduler reads them."""

STREAMS: tuple[Stream, ...] = get_args(Stream)

LAST_ENTRY = "18446744073709551615-18446744073709551615"
"""No entry of a stream can come after one of this id, which anyone who writes there may choose."""

Cursor = dict[Stream, str]
"""The last entry read of each stream; missing streams: none yet."""


_FAMILIES = ("pending:", "tries:", "reply:", "image:", "celery:", "provisioner:")
"""Beginnings of keys (after the prefix) of which there may be many."""


class Keys:
    """The keys of the farm whose keys begin with ``prefix``.

    Another farm's prefix may begin with this one's: see ``among``.
    """

    def __init__(self, prefix: str = DEFAULT_PREFIX) -> None:
        self.prefix = prefix
        self.lease = f"{prefix}lease"
        self.fence = f"{prefix}fence"
        self.meta = f"{prefix}meta"
        self.log = f"{prefix}log"
        self.platforms = f"{prefix}platforms"
        self.jobs = f"{prefix}jobs"
        self.lives = f"{prefix}lives"
        self.running = f"{prefix}running"
        self.builders = f"{prefix}builders"
        self.results = f"{prefix}results"
        self.ended = f"{prefix}ended"
        self.submitted = f"{prefix}submitted"
        self.pools = f"{prefix}pools"
        self.wanted = f"{prefix}wanted"
        self.requested = f"{prefix}requested"
        self.hosts = f"{prefix}hosts"
        self.status = f"{prefix}status"
        self.learned = f"{prefix}learned"
        self.dead_letters = f"{prefix}dead-letters"
        self.refused = f"{prefix}refused"
        self.provisioner = f"{prefix}provisioner"
        self.provisioner_lease = f"{prefix}provisioner:lease"
        #: put before every key of Celery's Redis transport (its ``global_keyprefix``)
        self.celery = f"{prefix}celery:"

    def stream(self, name: Stream) -> str:
        """Return the stream of this name."""
        return f"{self.prefix}{name}"

    def among(self, names: Iterable[bytes]) -> Iterator[bytes]:
        """Yield those of these keys that are this farm's, or of a farm within a family of them."""
        ends = "|".join(map(re.escape, patterns())).replace(r"\*", ".*")
        ours = re.compile(f"{re.escape(self.prefix)}(?:{ends})".encode(), re.DOTALL)
        return filter(ours.fullmatch, names)

    def pending(self, platform: str) -> str:
        """Return the sorted set of the jobs that wait for this platform (``amd64/virtual``)."""
        return f"{self.prefix}pending:{platform}"

    def tries(self, job: str) -> str:
        """Return the list of the void attempts of a job."""
        return f"{self.prefix}tries:{job}"

    def reply(self, token: str) -> str:
        """Return the list that the answer to a question is pushed on."""
        return f"{self.prefix}reply:{token}"

    def image(self, name: str) -> str:
        """Return the list that an image of the whole farm is kept in."""
        return f"{self.prefix}image:{name}"

    def host_list(self, host: str) -> str:
        """Return the list that Celery's transport keeps for a host's queue."""
        return self.celery + queue_name(host)


def patterns() -> tuple[str, ...]:
    """Return patterns, without the prefix, that match every key of a farm and no other farm's."""
    single = sorted(set(vars(Keys("")).values()) - {"", "celery:"})
    return (*single, *STREAMS, *(f"{family}*" for family in _FAMILIES))


def written_at(entry: str) -> float:
    """Return when a stream's entry was written, Unix seconds by the server's clock."""
    return int(entry.partition("-")[0]) / 1000


def place_of(entry: str) -> tuple[int, int]:
    """Return what a stream's entries are ordered by."""
    time, _, serial = entry.partition("-")
    return int(time), int(serial or 0)


def after(entry: str) -> str:
    """Return the smallest id of a stream's entry that is greater."""
    time, serial = place_of(entry)
    return f"{time}-{serial + 1}"


def queue_name(host: str) -> str:
    """Return the name of the Celery queue that only this builder host consumes."""
    return f"host.{host}"


def literal(text: str) -> str:
    """Return a pattern that matches just this text."""
    return "".join(f"\\{c}" if c in "*?[]\\" else c for c in text)


_SIGN = 1 << 63
_ALL = (1 << 64) - 1


def encode_float(value: float) -> str:
    """Return 16 hex digits that sort as the numbers do; raises ValueError for NaN."""
    if math.isnan(value):
        raise ValueError("NaN has no place in an order")
    bits: int = struct.unpack(">Q", struct.pack(">d", value + 0.0))[0]
    # positive: above all negatives; negative: the larger the magnitude the lower
    return f"{bits ^ _ALL if bits & _SIGN else bits | _SIGN:016x}"


def encode_member(key: tuple[float, ...], job_id: str) -> str:
    """Return the sorted-set member of a waiting job, whose sort key is ``key``.

    Redis orders members of equal score by their bytes. Keys of one policy have one length.
    """
    *front, serial = key
    return f"{''.join(encode_float(float(part)) for part in front)}{serial:012x}:{job_id}"


def job_of_member(member: str) -> str:
    """Return the id of the job that a sorted-set member stands for."""
    return member.partition(":")[2]
