"""Fault injection through a live farm's server (``farm admin chaos``)."""

from __future__ import annotations

import random
import uuid
from collections.abc import Iterator

import msgspec
import redis

from farm.core.commands import EndJob
from farm.core.errors import FarmError
from farm.core.events import BuilderLost, CancelRequested, JobFinished
from farm.live.operating.client import FarmClient
from farm.live.redis.connection import connect
from farm.live.redis.keys import Keys
from farm.live.redis.server import memory_limit
from farm.live.store.saved import FarmReader
from farm.live.wire.messages import UNSTAMPED, VERSION, Ask, Beat, Envelope, encode, stream_of

#: what a call raises while the server is away, or refuses
AWAY = (redis.RedisError, FarmError, OSError)
#: entries written to each stream or list
AT_ONCE = 20
#: ended jobs among which one is looked for that did not succeed
ENDS_SEEN = 200
#: enough for a server to answer, too little to write anything
LITTLE_MEMORY = "1mb"

#: a Celery message whose body holds no arguments
EMPTY_TASK = (
    b'{"body":"W10=","content-encoding":"utf-8","content-type":"application/json",'
    b'"headers":{"task":"farm.start","id":"x"},"properties":{"delivery_tag":"x",'
    b'"delivery_info":{"exchange":"","routing_key":"x"},"body_encoding":"base64"}}'
)


def _message(
    reports: bytes = b"", *, sender: bytes = b"x", seq: bytes = b"1", version: int = VERSION
) -> bytes:
    """Return a message for the scheduler that is all right but for what is given."""
    head = b'{"v":%d,"sender":"%b","life":"x","seq":%b,' % (version, sender, seq)
    return head + b'"reports":[%b]}' % reports


GARBAGE = (
    b"",
    b"[" * 5000,
    b"null",
    b'{"v":%d}' % VERSION,
    _message(sender=b"\xff\xfe"),
    _message(version=99),
    _message(seq=b"9" * 400),
    _message(seq=b"0"),
    _message(sender=b"x" * 300),
    _message(b'{"event":"beat","held":7}'),
    # a level that no number of the farm holds
    _message(b'{"event":"priority-changed","at":0,"job":"x","level":1' + b"0" * 400 + b"}"),
    b'{"body":"e30=","headers":{},"properties":{}}',
    EMPTY_TASK,
)
"""Invalid messages: malformed, absurd, of another kind; some are refused only by the checks."""


class ServerFaults:
    """Injects faults into a farm's server or data. Calls raise redis errors if it is away."""

    def __init__(self, client: FarmClient) -> None:
        self._redis = connect(client.url, "farm-chaos")
        self.client = client
        self._keys: Keys = client.keys
        self._reader = FarmReader(self._redis, self._keys)

    def close(self) -> None:
        """Close the connection."""
        self._redis.close()

    def server_pid(self) -> int:
        """Return the server's process id."""
        return int(self._redis.info("server")["process_id"])

    def has_synced(self) -> bool:
        """Whether the server awaits no sync, and has written what it acknowledged before."""
        info = self._redis.info("persistence")
        return not (info.get("aof_pending_bio_fsync") or info.get("aof_buffer_length"))

    def count_ended(self) -> int:
        """Return how many jobs have ended."""
        return int(self._redis.hlen(self._keys.results))

    def stories(self) -> tuple[dict[str, EndJob], set[str]]:
        """Return the ends of all jobs by id, and the ids of those that have not ended."""
        pairs = self._redis.hgetall(self._keys.results).items()
        ends = {name.decode(): msgspec.json.decode(end, type=EndJob) for name, end in pairs}
        return ends, set(self._reader.jobs())

    def cut_connections(self) -> None:
        """Close every connection except this one."""
        self._redis.client_kill_filter(_type="normal", skipme=True)

    def refuse_writes(self, *, on: bool) -> None:
        """Make the server refuse every write (as with a full disk), or accept them again."""
        self._redis.config_set("min-replicas-to-write", int(on))

    def run_out_of_memory(self, *, on: bool) -> None:
        """Make the server run out of memory, or lift the limit."""
        self._redis.config_set("maxmemory", LITTLE_MEMORY if on else memory_limit())

    def delete_log(self) -> None:
        """Delete the lines of the event log that are not on the disk yet."""
        self._redis.delete(self._keys.log)

    def ended_job(self, rng: random.Random) -> str:
        """Return the id of a job that has ended; empty: none has."""
        names = self._redis.hrandfield(self._keys.results, 10) or []
        return rng.choice(sorted(names)).decode() if names else ""

    def failed_job(self, rng: random.Random) -> str:
        """Return the id of a job that has failed or was cancelled; empty: there was none to see."""
        ends = self._redis.hrandfield(self._keys.results, ENDS_SEEN, withvalues=True) or []
        records = [msgspec.json.decode(end, type=EndJob) for end in ends[1::2]]
        names = sorted(record.job.id for record in records if record.outcome != "succeeded")
        return rng.choice(names) if names else ""

    def cancel_run(self, rng: random.Random) -> None:
        """Cancel what is left of a run, whichever of its jobs others need.

        One with many jobs is the likelier.
        """
        records = self._reader.jobs().values()
        runs = sorted(record.job.matrix for record in records if record.job.matrix is not None)
        if runs:
            self.client.send(CancelRequested(UNSTAMPED, matrix=rng.choice(runs), reason="chaos"))

    @property
    def questions(self) -> list[tuple[str, ...]]:
        """Commands with the largest answers that this farm's data give."""
        keys = self._keys
        return [("HGETALL", keys.jobs), ("HGETALL", keys.results), ("XRANGE", keys.log, "-", "+")]

    def ask_all(self) -> None:
        """Ask for everything that the server has of the farm."""
        pipe = self._redis.pipeline(transaction=False)
        for words in self.questions:
            pipe.execute_command(*words)
        pipe.execute(raise_on_error=False)

    def ask_scheduler(self) -> None:
        """Put questions to the scheduler whose answers are never read."""
        question = Ask(about="decision", job="chaos-1", reply_to=f"{self._keys.prefix}unread")
        envelope = Envelope(VERSION, "asker", uuid.uuid4().hex[:12], 1, (question,) * AT_ONCE)
        pipe = self._redis.pipeline(transaction=False)
        for _ in range(AT_ONCE):
            pipe.xadd(self._keys.stream(stream_of(question)), {"m": encode(envelope)})
        pipe.execute(raise_on_error=False)

    def garbage_reports(self, rng: random.Random) -> None:
        """Write invalid messages to every stream that the scheduler reads."""
        for stream in self._streams():
            for _ in range(AT_ONCE):
                field = rng.choice([b"m", b"m", b"m", b"x", b""])
                self._redis.xadd(stream, {field: garbage(rng)})

    def garbage_commands(self, rng: random.Random) -> None:
        """Write invalid messages to every builder host's queue."""
        for host in self.client.hosts():
            for _ in range(AT_ONCE):
                self._redis.lpush(self._keys.host_list(host), garbage(rng))

    def forged_reports(self, rng: random.Random) -> None:
        """Report ends of running jobs, and losses of builders, in the name of other hosts."""
        running = [r for r in self._reader.jobs().values() if r.builder is not None]
        hosts = [*self.client.hosts(), "stranger"]
        for record in rng.sample(running, min(AT_ONCE, len(running))):
            builder = record.builder or ""
            reports = (
                Beat(),
                JobFinished(UNSTAMPED, record.job.id, record.attempts, builder, "failed", "forged"),
                BuilderLost(UNSTAMPED, builder, "forged"),
            )
            life, seq = uuid.uuid4().hex[:12], rng.choice([1, 2**62])
            envelope = Envelope(VERSION, rng.choice(hosts), life, seq, reports)
            for stream in self._streams():
                self._redis.xadd(stream, {"m": encode(envelope)})

    def _streams(self) -> Iterator[bytes]:
        for key in self._redis.scan_iter(match=self._keys.prefix + "*", _type="stream"):
            if key != self._keys.log.encode():
                yield key


def garbage(rng: random.Random) -> bytes:
    """Return an invalid message."""
    return rng.choice([*GARBAGE, rng.randbytes(rng.randrange(1, 200))])
