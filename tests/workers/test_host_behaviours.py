"""Which of the user's behaviours a host's builders have."""

from __future__ import annotations

import sys
import types

import pytest

from farm.core.model import Builder
from farm.emulation.behaviour import BuilderBehaviour
from farm.live.settings import LiveSettings
from farm.live.wire.messages import Play
from farm.plugins.own_behaviours import OwnBehaviours
from workers.host import BuilderHost


def test_a_behaviour_is_looked_up_once_and_found_by_its_name(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """A farm that names another behaviour for the same pool gets that one from the same host."""
    booted: list[str] = []

    def behaviour(name: str) -> type[BuilderBehaviour]:
        def boot_time(_: BuilderBehaviour) -> float:
            booted.append(name)
            return 1.0

        return type(name, (BuilderBehaviour,), {"boot_time": boot_time})

    mine = types.ModuleType("mine")
    mine.__dict__.update(First=behaviour("First"), Second=behaviour("Second"))
    monkeypatch.setitem(sys.modules, "mine", mine)
    made: list[str] = []

    class Counted(OwnBehaviours):
        def __init__(self, name: str, where: str) -> None:
            made.append(name)
            super().__init__(name, where)

    monkeypatch.setattr("workers.host.OwnBehaviours", Counted)
    host = BuilderHost(LiveSettings(), 1)
    for index, name in enumerate(("First", "First", "Second")):
        builder = Builder(id=f"p-{index}", pool="p", index=index)
        host.play(Play(builder=builder, behaviour=f"mine:{name}"))
    assert booted == ["First", "First", "Second"]
    assert made == ["mine:First", "mine:Second"]
