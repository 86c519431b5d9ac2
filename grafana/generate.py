"""Write the dashboards: ``python grafana/generate.py`` (``--check``: are they current?).

``boards/`` has a file for each, and ``schema.yaml`` what they have in common.
"""

from __future__ import annotations

import copy
import json
import sys
from pathlib import Path
from typing import Any

import yaml

HERE = Path(__file__).parent
FOLDER = HERE / "dashboards"
FARMS = 'job=~"$job", instance=~"$instance"'
WIDTH = 24

Json = dict[str, Any]


def rendered() -> dict[str, str]:
    """Return the text of each file, by name."""
    schema = _read(HERE / "schema.yaml")
    boards = {path.stem: board(schema, _read(path)) for path in (HERE / "boards").glob("*.yaml")}
    return {
        f"{name}.json": json.dumps(made, sort_keys=True, indent=2, ensure_ascii=False) + "\n"
        for name, made in boards.items()
    }


def board(schema: Json, wanted: Json) -> Json:
    """Return a dashboard with its variables, marks and panels."""
    made = copy.deepcopy(schema["board"])
    for mark in made["annotations"]["list"]:
        mark["expr"] = chosen(mark["expr"])
    variables = [
        {**schema["choice"], "name": name, "label": name.capitalize(), "query": chosen(values)}
        for name, values in schema["choices"].items()
        if name in ("job", "instance", *wanted.get("choices", ()))
    ]
    prices = [schema["price"]] if "price" in wanted.get("choices", ()) else []
    return {
        **made,
        **{key: wanted[key] for key in ("uid", "title", "description")},
        "templating": {"list": [schema["source"], *variables, *prices]},
        "panels": laid_out(wanted["rows"], schema["kinds"]),
    }


def laid_out(rows: list[Json], kinds: Json) -> list[Json]:
    """Return the panels of all rows, from left to right, with the rows' headings before them."""
    made: list[Json] = []

    def add(what: Json, *, w: int, h: int, x: int, y: int) -> None:
        made.append({**what, "id": len(made) + 1, "gridPos": {"h": h, "w": w, "x": x, "y": y}})

    top = 0
    for row in rows:
        heading = {"type": "row", "title": row["row"], "collapsed": False, "panels": []}
        add(heading, w=WIDTH, h=1, x=0, y=top)
        width, height = row.get("width", 12), row.get("height", 8)
        a_line = WIDTH // width
        for number, wanted in enumerate(row["panels"]):
            line, place = divmod(number, a_line)
            where = {"x": place * width, "y": top + 1 + line * height}
            add(panel({"empty": row.get("empty"), **wanted}, kinds), w=width, h=height, **where)
        top += 1 - height * (-len(row["panels"]) // a_line)
    return made


def panel(wanted: Json, kinds: Json) -> Json:
    """Return a panel of the kind that its first key names."""
    kind = next(name for name in kinds if name in wanted)
    made = copy.deepcopy(kinds[kind])
    defaults = made.pop("defaults")
    defaults |= {"unit": wanted["unit"], "noValue": wanted["empty"] or "nothing yet"}
    if kind in ("number", "names", "bars"):
        defaults["thresholds"] = {"mode": "absolute", "steps": steps(wanted.get("levels", {}))}
        defaults["color"] = {"mode": "thresholds"}
    if "words" in wanted:
        words = {str(value): {"text": text} for value, text in wanted["words"].items()}
        defaults["mappings"] = [{"type": "value", "options": words}]
    if "max" in wanted:
        defaults["max"] = wanted["max"]
    areas, zeros = made.pop("areas", {}), made.pop("zeros", {})
    if wanted.get("stacked"):
        defaults["custom"] |= areas
    at_the_end = kind in ("number", "names", "bars")
    targets = []
    for letter, (legend, expr) in zip("ABCDEFGH", queries(kind, wanted).items(), strict=False):
        target = {"datasource": made["datasource"], "expr": chosen(expr), "refId": letter}
        target |= {"instant": at_the_end, "range": not at_the_end}
        target |= {"legendFormat": legend} if legend else {}
        targets.append(target | ({"format": "heatmap"} if kind == "heat" else {}))
    left_out = zeros and (wanted.get("stacked") or wanted["unit"] in ("ops", "cpm"))
    field_config = {"defaults": defaults, "overrides": [zeros] if left_out else []}
    texts = {"title": wanted[kind], "description": wanted["about"]}
    return {**made, **texts, "fieldConfig": field_config, "targets": targets}


def steps(levels: Json) -> list[Json]:
    """Return thresholds: without levels one colour for all (Grafana's own are red from 80)."""
    first = levels.get("below", "text")
    rest = sorted((at, colour) for at, colour in levels.items() if at != "below")
    return [{"color": first, "value": None}, *({"color": c, "value": at} for at, c in rest)]


def queries(kind: str, wanted: Json) -> dict[str, str]:
    """Return legend -> PromQL; a histogram stands for those of its buckets, quantiles or mean."""
    metric = wanted.get("histogram")
    if metric is None:
        return wanted["queries"] if "queries" in wanted else {"": wanted["query"]}
    name, farms = metric.split("{")
    parts = (f"{name}_{part}{{{farms}[$__rate_interval]" for part in ("bucket", "sum", "count"))
    if kind == "heat":
        return {"{{le}}": f"sum by (le) (increase({next(parts)}))"}
    buckets, total, count = (f"(rate({part}))" for part in parts)
    found = {
        f"p{round(100 * q)}": f"histogram_quantile({q:g}, sum by (le) {buckets})"
        for q in wanted["quantiles"]
    }
    return {**found, "mean": f"sum{total} / sum{count}"}


def chosen(expr: str) -> str:
    """Return the query with its marks (`@pool`, `@platform`, `@`) filled in."""
    for label in ("pool", "platform"):
        expr = expr.replace(f"@{label}", f'{FARMS}, {label}=~"${label}"')
    return expr.replace("@", FARMS)


def stale() -> list[str]:
    """Return the names of files that are not current (different, missing, or left over)."""
    wanted = rendered()
    there = {path.name: path.read_text(encoding="utf-8") for path in FOLDER.glob("*.json")}
    return sorted(n for n in wanted.keys() | there.keys() if wanted.get(n) != there.get(n))


def main() -> None:
    """Write the files, or report which are stale."""
    if "--check" in sys.argv[1:]:
        if found := stale():
            sys.exit(f"stale: {', '.join(found)}; run python grafana/generate.py")
        return
    FOLDER.mkdir(exist_ok=True)
    for name, text in rendered().items():
        (FOLDER / name).write_text(text, encoding="utf-8")


def _read(path: Path) -> Json:
    found: Json = yaml.safe_load(path.read_text(encoding="utf-8"))
    return found


if __name__ == "__main__":
    main()
