"""The dispatcher that a farm's balancer needs."""

from __future__ import annotations

from farm.core.dispatching.dispatcher import Dispatcher
from farm.core.dispatching.fastest import FastestDispatcher
from farm.core.dispatching.heavy_light import HeavyLightDispatcher
from farm.core.estimator import Estimator
from farm.core.rules import SchedulingRules


def make_dispatcher(rules: SchedulingRules, estimator: Estimator) -> Dispatcher:
    """Return the dispatcher for these rules; most balancers only need a ranking."""
    if rules.heavy_light is not None:
        return HeavyLightDispatcher(rules, rules.heavy_light)
    if rules.by_speed:
        return FastestDispatcher(rules, estimator)
    return Dispatcher(rules)
