"""Rows of *Scheduler* about what it stands on: the Redis server, and its own process."""

from __future__ import annotations

from panels import LIVE_ONLY, Board, lines, mean, quantiles


def redis_row(board: Board) -> None:
    """How full the farm's server is, what it has to do, and whether it keeps what it is told."""
    board.row("Redis")
    board.add(
        lines("Redis memory", "What the server uses, and what it may use: its maxmemory, else the "
              "machine's. A full one takes no job any more.", "bytes",
              {"used": "max(farm_redis_memory_bytes{@})",
               "limit": "max(farm_redis_memory_limit_bytes{@})"}, empty=LIVE_ONLY),
        width=8,
    )  # fmt: skip
    board.add(
        lines("Redis inbox", "Reports that no scheduler has taken in yet. They pile up while none is "
              "in charge, or where one cannot keep up.", "short",
              {"reports": "max(farm_redis_inbox_length{@})"}, empty=LIVE_ONLY),
        width=8,
    )  # fmt: skip
    board.add(
        lines("Redis answers and saves", "1: the server answers; 1: what it last wrote to disk went "
              "well.", "none",
              {"answers": "min(farm_redis_up{@})",
               "saves": "min(farm_redis_persistence_ok{@})"}, most=1.0, empty=LIVE_ONLY),
        width=8,
    )  # fmt: skip
    commit = "farm_scheduler_commit_seconds"
    board.add(
        lines("Redis commit time", "Real time of one transaction.", "s",
              {**quantiles(commit, 0.5, 0.95, 0.99), "mean": mean(commit)}, empty=LIVE_ONLY),
        width=8,
    )  # fmt: skip
    board.add(
        lines("Redis load", "Transactions of the scheduler, and commands of everybody, per real "
              "second.", "ops",
              {"transactions":
               "sum(rate(farm_scheduler_commit_seconds_count{@}[$__rate_interval]))",
               "commands": "sum(rate(farm_redis_commands_total{@}[$__rate_interval]))"},
              empty=LIVE_ONLY),
        width=8,
    )  # fmt: skip
    board.add(
        lines("Redis keys and clients", "Keys of the farm's database, and connections to the server.",
              "short",
              {"keys": "max(farm_redis_keys{@})", "clients": "max(farm_redis_clients{@})"},
              empty=LIVE_ONLY),
        width=8,
    )  # fmt: skip
    board.add(
        lines("Redis append-only file", "What a server that starts again reads; 0: it keeps none.",
              "bytes", {"size": "max(farm_redis_aof_bytes{@})"}, empty=LIVE_ONLY),
        width=8,
    )  # fmt: skip


def process_row(board: Board) -> None:
    """What the farm's processes use."""
    board.row("Processes")
    board.add(
        lines("Processor time", "Part of one core that the processes use.", "percentunit",
              {"{{job}}": "sum by (job) (rate(process_cpu_seconds_total{@}[$__rate_interval]))"},
              empty=LIVE_ONLY),
    )  # fmt: skip
    board.add(
        lines("Memory", "Resident memory of the processes.", "bytes",
              {"{{job}}": "sum by (job) (process_resident_memory_bytes{@})"}, empty=LIVE_ONLY),
    )  # fmt: skip
    board.add(
        lines("Builder hosts", "Celery processes that play builders.", "short",
              {"hosts": "sum(farm_builder_hosts{@})"}, empty=LIVE_ONLY),
    )  # fmt: skip
    board.add(
        lines("Farm speed", "Farm seconds in a real second.", "none",
              {"speed": "max(farm_clock_speed_ratio{@})"}),
    )  # fmt: skip
