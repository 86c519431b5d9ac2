"""How our panels look: a function a kind, so that each has unit, description, no-data text."""

from __future__ import annotations

from collections.abc import Mapping

from grafana_foundation_sdk.builders import common, dashboard, heatmap, prometheus, stat, timeseries
from grafana_foundation_sdk.models.common import LegendPlacement, StackingMode
from grafana_foundation_sdk.models.dashboard import (
    DashboardCursorSync,
    DataSourceRef,
    GridPos,
    VariableOption,
    VariableRefresh,
)
from grafana_foundation_sdk.models.prometheus import PromQueryFormat

#: uid of the data source that grafana/provisioning brings
DATASOURCE = "farm-prometheus"
SOURCE = DataSourceRef(type_val="prometheus", uid="${datasource}")
#: what `@` stands for in a selector: the farms that the viewer chose
CHOSEN = 'job=~"$job", instance=~"$instance"'

Queries = Mapping[str, str]
"""Legend -> PromQL, with `@` as the first matcher of every selector."""

WIDTH = 24
HEIGHT = 8

AnyPanel = timeseries.Panel | heatmap.Panel | stat.Panel


class Board:
    """A dashboard being laid out: panels from left to right, rows from top to bottom."""

    def __init__(self, uid: str, title: str, description: str) -> None:
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
            .link(
                dashboard.DashboardLink("Farm").type("dashboards").tags(["farm"]).as_dropdown(True)
            )
        )
        for variable in _variables():
            self._builder = self._builder.with_variable(variable)
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
) -> timeseries.Panel:
    """Return curves over time, from 0 on."""
    panel = timeseries.Panel().title(title).description(description).unit(unit)
    panel = panel.datasource(SOURCE).no_value("nothing yet").min(0)
    legend = common.VizLegendOptions().placement(LegendPlacement.BOTTOM).show_legend(True)
    panel = panel.legend(legend).span_nulls(False).line_width(1).fill_opacity(15 if stacked else 0)
    if stacked:
        panel = panel.stacking(common.StackingConfig().mode(StackingMode.NORMAL).group("A"))
    if most is not None:
        panel = panel.max(most)
    for number, (name, expr) in enumerate(queries.items()):
        panel = panel.with_target(_query(expr, name, number))
    return panel


def number(title: str, description: str, unit: str, expr: str) -> stat.Panel:
    """Return one number, as it is now."""
    panel = stat.Panel().title(title).description(description).unit(unit)
    panel = panel.datasource(SOURCE).no_value("nothing yet")
    panel = panel.reduce_options(common.ReduceDataOptions().calcs(["lastNotNull"]))
    return panel.with_target(_query(expr, "", 0))


def heat(title: str, description: str, metric: str) -> heatmap.Panel:
    """Return how a histogram's observations are spread, over time."""
    panel = heatmap.Panel().title(title).description(description).unit("short")
    panel = panel.datasource(SOURCE).no_value("nothing yet").calculate(False)
    panel = panel.y_axis(heatmap.YAxisConfig().unit("s"))
    expr = f"sum by (le) (increase({metric}_bucket{{@}}[$__rate_interval]))"
    return panel.with_target(_query(expr, "{{le}}", 0).format(PromQueryFormat.HEATMAP))


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
    query = prometheus.Dataquery().expr(expr.replace("@", CHOSEN)).range().datasource(SOURCE)
    query = query.ref_id(chr(ord("A") + number))
    return query.legend_format(legend) if legend else query


def _variables() -> list[dashboard.DatasourceVariable | dashboard.QueryVariable]:
    default = VariableOption(selected=True, text="Farm Prometheus", value=DATASOURCE)
    source = dashboard.DatasourceVariable("datasource").label("Data source").type("prometheus")
    return [
        source.current(default),
        _choice("job", "Job", "label_values(farm_build_info, job)"),
        _choice("instance", "Instance", 'label_values(farm_build_info{job=~"$job"}, instance)'),
    ]


def _choice(name: str, label: str, values: str) -> dashboard.QueryVariable:
    all_of_them = VariableOption(selected=True, text=["All"], value=["$__all"])
    variable = dashboard.QueryVariable(name).label(label).query(values).datasource(SOURCE)
    variable = variable.refresh(VariableRefresh.ON_TIME_RANGE_CHANGED).multi(True)
    return variable.include_all(True).all_value(".+").current(all_of_them)
