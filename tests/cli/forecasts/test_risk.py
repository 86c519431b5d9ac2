"""``farm risk``: the table, the figure, and mistakes in what is asked for."""

from __future__ import annotations

import json
import re
from pathlib import Path
from xml.etree import ElementTree as ET

import pytest
import typer
from typer.testing import CliRunner

from farm.cli.forecasts.risk import risk
from farm.core.errors import InputError

app = typer.Typer()
app.command()(risk)


def test_json_has_every_point_of_the_figure() -> None:
    """Protects scripts: one row for each n and p, unrounded."""
    result = CliRunner().invoke(app, ["--json", "--heavy", "0.2", "--slots", "16"])
    assert result.exit_code == 0
    rows = json.loads(result.output)["risk"]
    assert [row["slots"] for row in rows] == list(range(1, 17))
    assert rows[-1]["expected_slowdown"] == pytest.approx(1.891, abs=5e-4)


def test_the_table_is_printed() -> None:
    """Protects readers: values to three places."""
    result = CliRunner().invoke(app, ["--heavy", "0.2,0.4", "--slots", "4"])
    assert result.exit_code == 0
    assert "1.084" in result.output


@pytest.mark.parametrize("suffix", [".svg", ".html"])
def test_the_figure_is_one_self_contained_file(tmp_path: Path, suffix: str) -> None:
    """Protects the figure: well-formed, nothing fetched from elsewhere."""
    path = tmp_path / f"risk{suffix}"
    result = CliRunner().invoke(app, ["--plot", str(path)])
    assert result.exit_code == 0, result.output
    text = path.read_text()
    drawing = ET.fromstring(text[text.index("<svg") : text.index("</svg>") + 6])
    said = {one.text for one in drawing.iter("{http://www.w3.org/2000/svg}text")}
    assert {f"p = 0.{tenths}" for tenths in range(1, 6)} <= said
    assert all(place.startswith("#") for place in re.findall(r'href="([^"]*)"', text))
    assert "src=" not in text


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["--heavy", "a lot"], "--heavy: found 'a lot'"),
        (["--heavy", "1.2"], "heavy fraction: found 1.2"),
        (["--slowdown", "1,0.5"], r"--slowdown\[1\]: found 0.5"),
        (["--slowdown", "quick"], "--slowdown: found 'quick'"),
        (["--plot", "risk.jpg"], "ends in .html, .svg, .png, .pdf"),
        (["--plot", "/no/such/folder/risk.svg"], "/no/such/folder/risk.svg: cannot be written"),
    ],
)
def test_a_mistake_is_one_message(arguments: list[str], message: str) -> None:
    """Protects users: the option, what was found, what is allowed."""
    result = CliRunner().invoke(app, arguments)
    assert isinstance(result.exception, InputError)
    with pytest.raises(InputError, match=message):
        raise result.exception


def test_one_slot_or_no_risk_at_all_can_be_drawn(tmp_path: Path) -> None:
    """Protects the figure's scales from dividing by nothing."""
    path = tmp_path / "flat.svg"
    result = CliRunner().invoke(
        app, ["--slots", "1", "--heavy", "0", "--slowdown", "1", "--plot", str(path)]
    )
    assert result.exit_code == 0, result.output
    assert "nan" not in path.read_text()
