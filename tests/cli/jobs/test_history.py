"""What ``farm job`` shows of a job's state."""

from farm.cli.jobs.job import history_lines


def test_several_values_are_shown_as_people_write_them():
    """A blocked job's needs are read by people, who know no lists of Python."""
    history = {"state": "blocked", "needs": ["build", "lint:ended"], "unmet": ["build"], "left": []}
    lines = dict(history_lines(history, []))
    assert lines["needs"] == "build, lint:ended"
    assert lines["unmet"] == "build"
    assert "left" not in lines
