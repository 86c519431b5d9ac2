"""Every Redis key of a farm, with its type and meaning. No key is spelled anywhere else.

===================== ======== =====================================================
key (after prefix)     type     meaning
===================== ======== =====================================================
lease                  string   the scheduler in charge and its token (JSON); it expires
fence                  hash     ``epoch`` counts the schedulers that took charge, ``commits`` their
                                transactions; only those of the latest epoch are carried out
meta                   hash     ``version``, ``speed``, ``cursor`` (last inbox entry taken in) and
                                ``at`` (farm time then), ``clock`` (the same by the clock of the
                                scheduler's machine); of a farm that stays up also ``counts``
                                (JSON) and ``rules`` (the scheduling that the jobs' keys are of)
log                    stream   event log lines of the latest commits (field ``l``), until they are
                                on disk (a farm that stays up)
inbox                  stream   everything reported to the scheduler; field ``m`` is an Envelope
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
tries:<job>            list     Try (JSON) for every attempt of the job that came to nothing, the
                                last one last (an attempt may stand there twice)
pools                  hash     pool -> PoolReport (JSON): what a provisioner is told, a few times
                                per second
wanted                 hash     builder id -> Play (JSON), for requested builders that await a host
                                with room
requested              hash     builder id -> Play (JSON), for requested builders that hosts of
                                their own are to play (containers)
hosts                  hash     builder host -> HostRecord (JSON), for every host that is there
status                 string   FarmStatus (JSON), renewed a few times per second
learned                string   Learned (JSON): what the scheduler of a farm that stays up knows of
                                the past (run times, fair-share trees), for its next scheduler
provisioner            hash     pool -> what its provisioner remembers (JSON), for its next start
provisioner:lease      string   the provisioner in charge, like ``lease``
reply:<token>          list     the answer to one question; it expires
celery:…               various  what Celery's transport keeps (one list per builder host: its queue)
===================== ======== =====================================================
"""

from __future__ import annotations

from farm.core.model import Platform
from farm.live.settings import DEFAULT_PREFIX


class Keys:
    """The keys of the farm whose keys begin with ``prefix``."""

    def __init__(self, prefix: str = DEFAULT_PREFIX) -> None:
        self.prefix = prefix
        self.lease = f"{prefix}lease"
        self.fence = f"{prefix}fence"
        self.meta = f"{prefix}meta"
        self.inbox = f"{prefix}inbox"
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
        self.provisioner = f"{prefix}provisioner"
        self.provisioner_lease = f"{prefix}provisioner:lease"
        #: put before every key of Celery's Redis transport (its ``global_keyprefix``)
        self.celery = f"{prefix}celery:"

    def pending(self, platform: str) -> str:
        """Return the sorted set of the jobs that wait for this platform."""
        return f"{self.prefix}pending:{platform}"

    def tries(self, job: str) -> str:
        """Return the list of the attempts of a job that came to nothing."""
        return f"{self.prefix}tries:{job}"

    def reply(self, token: str) -> str:
        """Return the list that the answer to a question is pushed on."""
        return f"{self.prefix}reply:{token}"

    def host_list(self, host: str) -> str:
        """Return the list that Celery's transport keeps for a host's queue."""
        return self.celery + queue_name(host)


def queue_name(host: str) -> str:
    """Return the name of the Celery queue that only this builder host consumes."""
    return f"host.{host}"


def platform_name(platform: Platform) -> str:
    """Return how a platform is written in keys: ``amd64/virtual``, ``any/native``."""
    return str(platform)
