"""What a viewer can choose: the data source, the farms, and on some boards pools or platforms."""

from __future__ import annotations

from grafana_foundation_sdk.builders import dashboard
from grafana_foundation_sdk.models.dashboard import (
    DataSourceRef,
    VariableOption,
    VariableRefresh,
    VariableSort,
)

#: uid of the data source that grafana/provisioning brings
DATASOURCE = "farm-prometheus"
SOURCE = DataSourceRef(type_val="prometheus", uid="${datasource}")

FARMS = 'job=~"$job", instance=~"$instance"'
#: a label that can be chosen -> a metric that has all its values
WITH_LABEL = {"pool": "farm_builders", "platform": "farm_queue_depth"}


def chosen(expr: str) -> str:
    """Return the query with its marks (`@pool`, `@platform`, `@`) filled in."""
    for label in WITH_LABEL:
        expr = expr.replace(f"@{label}", f'{FARMS}, {label}=~"${label}"')
    return expr.replace("@", FARMS)


def variables(*labels: str) -> list[dashboard.DatasourceVariable | dashboard.QueryVariable]:
    """Return the variables of a board whose viewer may choose these labels too."""
    default = VariableOption(selected=True, text="Farm Prometheus", value=DATASOURCE)
    source = dashboard.DatasourceVariable("datasource").label("Data source").type("prometheus")
    return [
        source.current(default),
        _choice("job", "label_values(farm_build_info, job)"),
        _choice("instance", 'label_values(farm_build_info{job=~"$job"}, instance)'),
        *(_choice(n, f"label_values({WITH_LABEL[n]}{{{FARMS}}}, {n})") for n in labels),
    ]


def _choice(name: str, values: str) -> dashboard.QueryVariable:
    all_of_them = VariableOption(selected=True, text=["All"], value=["$__all"])
    variable = dashboard.QueryVariable(name).label(name.capitalize()).query(values)
    variable = variable.datasource(SOURCE).refresh(VariableRefresh.ON_TIME_RANGE_CHANGED)
    variable = variable.sort(VariableSort.NATURAL_ASC).multi(True)
    return variable.include_all(True).all_value(".+").current(all_of_them)
