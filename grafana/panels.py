"""How our panels look: a function a kind, so that each has unit, description, no-data text."""

from __future__ import annotations

from collections.abc import Mapping

from grafana_foundation_sdk.builders import (
    bargauge,
    common,
    dashboard,
    heatmap,
    prometheus,
    stat,
    timeseries,
)
from grafana_foundation_sdk.models.common import (
    BarGaugeDisplayMode,
    HeatmapCellLayout,
    LegendPlacement,
    StackingMode,
    VizOrientation,
)
from grafana_foundation_sdk.models.dashboard import (
    DashboardCursorSync,
    DashboardLinkType,
    GridPos,
)
from grafana_foundation_sdk.models.prometheus import PromQueryFormat
from marks import marks
from variables import SOURCE, chosen, variables

Queries = Mapping[str, str]
"""Legend -> PromQL; `@` in a selector stands for the farms that the viewer chose, `@pool` and
`@platform` for the pools and platforms too."""

WIDTH = 24
HEIGHT = 8

#: what a panel shows instead of nothing …
NOTHING = "nothing yet"
#: … and where a simulated run has nothing to show
LIVE_ONLY = "nothing yet: only a live farm measures this"

AnyPanel = timeseries.Panel | heatmap.Panel | stat.Panel | bargauge.Panel


class Board:
    """A dashboard being laid out: panels from left to right, rows from top to bottom.

    Args:
        uid: fixed: links and the home dashboard find it.
        choices: labels besides job and instance that the viewer may choose: pool, platform.
    """

    def __init__(self, uid: str, title: str, description: str, *choices: str) -> None:
        self.uid = uid
        self._builder = (
            dashboard.Dashboard(title)
            .uid(uid)
            .description(description)
            .tags(["farm"])
            .readonly()
            .refresh("10s")
            .time("now-1h", "now")
            .tooltip(DashboardCursorSync.CROSSHAIR)
            .link(_to_the_others())
        )
        for variable in variables(*choices):
            self._builder = self._builder.with_variable(variable)
        for mark in marks():
            self._builder = self._builder.annotation(mark)
        self._x = self._y = self._tallest = self._number = 0

    def row(self, title: str) -> None:
        """Begin a row."""
        self._next_line()
        self._number += 1
        row = dashboard.Row(title).id(self._number).grid_pos(GridPos(h=1, w=WIDTH, x=0, y=self._y))
        self._builder = self._builder.with_row(row)
        self._y += 1

    def add(self, panel: AnyPanel, width: int = 12, height: int = HEIGHT) -> None:
        """Put a panel beside the last one, or below it where there is no room."""
        if self._x + width > WIDTH:
            self._next_line()
        self._number += 1
        self._tallest = max(self._tallest, height)
        place = GridPos(h=height, w=width, x=self._x, y=self._y)
        self._builder = self._builder.with_panel(panel.id(self._number).grid_pos(place))
        self._x += width

    def build(self) -> object:
        """Return the dashboard's model."""
        return self._builder.build()

    def _next_line(self) -> None:
        if self._x:
            self._y += self._tallest
            self._x = self._tallest = 0


def lines(
    title: str,
    description: str,
    unit: str,
    queries: Queries,
    *,
    stacked: bool = False,
    most: float | None = None,
    empty: str = NOTHING,
) -> timeseries.Panel:
    """Return curves over time, from 0 on."""
    panel = timeseries.Panel().title(title).description(description).unit(unit)
    panel = panel.datasource(SOURCE).no_value(empty).min(0)
    legend = common.VizLegendOptions().placement(LegendPlacement.BOTTOM).show_legend(True)
    panel = panel.legend(legend).span_nulls(False).line_width(1).fill_opacity(15 if stacked else 0)
    if stacked:
        panel = panel.stacking(common.StackingConfig().mode(StackingMode.NORMAL).group("A"))
    if most is not None:
        panel = panel.max(most)
    for number, (name, expr) in enumerate(queries.items()):
        panel = panel.with_target(_query(expr, name, number).range())
    return panel


def number(
    title: str, description: str, unit: str, expr: str, *, empty: str = NOTHING
) -> stat.Panel:
    """Return one number, as it is at the end of the shown range."""
    panel = stat.Panel().title(title).description(description).unit(unit)
    panel = panel.datasource(SOURCE).no_value(empty).reduce_options(_last())
    return panel.with_target(_query(expr, "", 0).instant())


def bars(
    title: str, description: str, unit: str, queries: Queries, *, empty: str = NOTHING
) -> bargauge.Panel:
    """Return a bar a series: what the shown range adds up to, at its end."""
    panel = bargauge.Panel().title(title).description(description).unit(unit).min(0)
    panel = panel.datasource(SOURCE).no_value(empty).reduce_options(_last())
    panel = panel.orientation(VizOrientation.HORIZONTAL).display_mode(BarGaugeDisplayMode.BASIC)
    for number, (name, expr) in enumerate(queries.items()):
        panel = panel.with_target(_query(expr, name, number).instant())
    return panel


def heat(title: str, description: str, metric: str) -> heatmap.Panel:
    """Return how a classic histogram's observations are spread, over time."""
    panel = heatmap.Panel().title(title).description(description).unit("short")
    panel = panel.datasource(SOURCE).no_value(NOTHING).calculate(False)
    # the buckets are cumulative: Grafana takes them apart for this format, and names them by `le`
    panel = panel.y_axis(heatmap.YAxisConfig().unit("s"))
    panel = panel.rows_frame(
        heatmap.RowsHeatmapOptions().layout(HeatmapCellLayout.LE).value("jobs")
    )
    panel = panel.cell_values(heatmap.CellValues().unit("short")).max_data_points(120)
    panel = panel.show_y_histogram().show_color_scale(True)
    expr = f"sum by (le) (increase({metric}_bucket{{@}}[$__rate_interval]))"
    return panel.with_target(_query(expr, "{{le}}", 0).range().format(PromQueryFormat.HEATMAP))


def quantiles(metric: str, *wanted: float) -> dict[str, str]:
    """Return the queries of a histogram's quantiles."""
    rate = f"sum by (le) (rate({metric}_bucket{{@}}[$__rate_interval]))"
    return {f"p{round(100 * q)}": f"histogram_quantile({q:g}, {rate})" for q in wanted}


def mean(metric: str) -> str:
    """Return the query of a histogram's mean."""
    return (
        f"sum(rate({metric}_sum{{@}}[$__rate_interval]))"
        f" / sum(rate({metric}_count{{@}}[$__rate_interval]))"
    )


def _query(expr: str, legend: str, number: int) -> prometheus.Dataquery:
    query = prometheus.Dataquery().expr(chosen(expr)).datasource(SOURCE)
    query = query.ref_id(chr(ord("A") + number))
    return query.legend_format(legend) if legend else query


def _last() -> common.ReduceDataOptions:
    return common.ReduceDataOptions().calcs(["lastNotNull"])


def _to_the_others() -> dashboard.DashboardLink:
    link = dashboard.DashboardLink("Farm").type(DashboardLinkType.DASHBOARDS).tags(["farm"])
    return link.as_dropdown(True).include_vars(True).keep_time(True)
