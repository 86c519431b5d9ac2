"""From a scenario's key names to a job's path."""

from __future__ import annotations

import pytest

from farm.core.errors import ScenarioError
from farm.core.model import Job, Platform
from farm.core.queues.fair_share.path_keys import KEYS, NO_KEY, PathExtractor

JOB = Job(
    id="j",
    service_time=1.0,
    platform=Platform("arm64"),
    kind="test",
    matrix="m1",
    attributes={"user": "ada", "team": "core", "correlated-build": "c7", "flavour": "mint"},
)


def test_every_name_gives_its_attribute():
    """The path has one key per name, outermost first."""
    names = ["team", "user", "correlated-build", "kind", "matrix", "platform.processor"]
    assert PathExtractor(names)(JOB) == ("core", "ada", "c7", "test", "m1", "arm64")
    assert PathExtractor(["platform", "platform.virtualized"])(JOB) == ("arm64/virtual", "virtual")
    assert PathExtractor([])(JOB) == ()


def test_any_attribute_by_name():
    """An attribute that the registry does not know can still be a key."""
    assert PathExtractor(["attribute:flavour"])(JOB) == ("mint",)


def test_jobs_without_the_attribute_share_one_node():
    """A missing or empty attribute has a stated key."""
    bare = Job(id="b", service_time=1.0)
    optional = [name for name in KEYS if name not in {"kind", "platform", "platform.virtualized"}]
    assert set(PathExtractor([*optional, "attribute:x"])(bare)) == {NO_KEY}


@pytest.mark.parametrize(("name", "said"), [("usr", "user"), ("attribute:", "attribute:NAME")])
def test_unknown_names_get_one_clear_message(name, said):
    """The message names the key, what was found and what is allowed."""
    with pytest.raises(ScenarioError, match=f"scheduling.fair_share.*{name}.*{said}"):
        PathExtractor([name])
