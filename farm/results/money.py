"""Costs in words: builder-hours, or money if the pools have prices."""

from __future__ import annotations

from typing import TypeAlias

import msgspec

from farm.results.formatting import readable_ratio

Currency: TypeAlias = "str | msgspec.UnsetType | None"
"""The name of a currency; empty: prices have none; UNSET or None: costs are builder-hours."""


def is_money(currency: Currency) -> bool:
    """Return whether costs are at prices."""
    return isinstance(currency, str)


def readable_cost(cost: float | None, currency: Currency) -> str:
    """Return a cost with its unit: ``76.3 builder-hours``, ``1,240 EUR``, ``12 at pool prices``."""
    return f"{readable_ratio(cost)} {unit_of_cost(currency)}"


def unit_of_cost(currency: Currency) -> str:
    """Return the unit of costs."""
    if not isinstance(currency, str):
        return "builder-hours"
    return currency or "at pool prices"


def readable_monthly(cost: float, currency: Currency, *, signed: bool = False) -> str:
    """Return a cost by the month: ``1,240 EUR a month``; ``signed``: a difference, ``+80 EUR``."""
    sign = "+" if signed and cost > 0.0 else ""
    name = f" {currency}" if isinstance(currency, str) and currency else ""
    return f"{sign}{readable_ratio(cost)}{name} a month"
