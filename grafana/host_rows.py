"""Rows of *Builders and provisioning* about the processes behind the builders."""

from __future__ import annotations

from panels import Board, lines, mean, quantiles

NO_HOSTS = "nothing yet: hosts serve no metrics unless they are told to (docs/metrics.md)"
NO_PROVISIONER = "nothing yet: only a provisioner with a process of its own tells this"
NO_BURNING = "nothing yet: no job of mode stress, memory or mixed has ended"


def provisioner_row(board: Board) -> None:
    """What the provisioner decides, and what its backend makes of it."""
    board.row("Provisioner")
    board.add(
        lines("Decisions and deeds", "Builders requested and drained by the provisioner; started and "
              "removed by its backend, or not to be started. Per real minute.", "cpm",
              {"{{action}}": "60 * sum by (action)"
               " (rate(farm_provisioner_actions_total{@pool}[$__rate_interval]))"},
              empty=NO_PROVISIONER),
        width=8,
    )  # fmt: skip
    board.add(
        lines("Builders of the backend", "What the provisioner sees: containers, or the builders that "
              "hosts play, by what they do.", "short",
              {"{{state}}": "sum by (state) (farm_provisioner_actual_builders{@pool})"},
              stacked=True, empty=NO_PROVISIONER),
        width=8,
    )  # fmt: skip
    cycle = "farm_provisioner_cycle_seconds"
    board.add(
        lines("Time of a look", "Real time of one look at the farm, its plans and what followed.",
              "s", {**quantiles(cycle, 0.5, 0.95), "mean": mean(cycle)}, empty=NO_PROVISIONER),
        width=8,
    )  # fmt: skip


def host_row(board: Board) -> None:
    """What the processes that play builders hold, how late they are, and how they burn."""
    board.row("Builder hosts")
    board.add(
        lines("Attempts held", "Jobs on the hosts' builders, by mode: timed ones wait for their end, "
              "the others burn processor time or memory.", "short",
              {"{{mode}}": "sum by (mode) (farm_host_attempts{@})"}, stacked=True, empty=NO_HOSTS),
    )  # fmt: skip
    board.add(
        lines("Attempts that end", "Per real second, by how; lost ones were dropped with their "
              "builder.", "ops",
              {"{{result}}":
               "sum by (result) (rate(farm_host_attempts_total{@}[$__rate_interval]))"},
              empty=NO_HOSTS),
    )  # fmt: skip
    lag = "farm_host_agenda_lag_seconds"
    board.add(
        lines("Lateness of hosts", "Real time by which ends of jobs and heartbeats came after they "
              "were due. What it is at speed 1 counts tenfold in farm time at speed 10.", "s",
              {**quantiles(lag, 0.5, 0.95, 0.99), "mean": mean(lag)}, empty=NO_HOSTS),
    )  # fmt: skip
    board.add(
        lines("Reports on their way", "Reports that are not on the farm's server yet, in all and of "
              "the worst host; tries to send that failed, per real minute.", "short",
              {"waiting": "sum(farm_host_reports_waiting{@})",
               "worst host": "max(farm_host_reports_waiting{@})",
               "failed tries a minute":
               "60 * sum(rate(farm_host_send_failures_total{@}[$__rate_interval]))"},
              empty=NO_HOSTS),
    )  # fmt: skip
    board.add(
        lines("Burning against calibration", "Of burning jobs that ended: time taken ÷ time that "
              "their work takes on idle cores (1: as calibrated), and ÷ processor time that they got "
              "(1: they never waited for a processor).", "none",
              {"{{mode}} ÷ calibrated": _ratio("work"), "{{mode}} ÷ processor": _ratio("cpu")},
              empty=NO_BURNING),
    )  # fmt: skip
    board.add(
        lines("Hosts", "Hosts whose metrics are here, those that the scheduler knows, and the builders "
              "that the former play.", "short",
              {"hosts that tell": "count(farm_host_builders{@})",
               "hosts": "sum(farm_builder_hosts{@})",
               "builders": "sum(farm_host_builders{@})"}, empty=NO_HOSTS),
    )  # fmt: skip


def _ratio(to: str) -> str:
    """Return the query of the time that burning jobs took, relative to this."""
    taken, other = (
        f"sum by (mode) (rate(farm_host_burning{part}_seconds_total{{@}}[$__rate_interval]))"
        for part in ("", f"_{to}")
    )
    return f"{taken} / {other}"
