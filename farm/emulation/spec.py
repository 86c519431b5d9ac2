"""A builder as a world has to emulate it."""

from __future__ import annotations

from farm.core.model import Builder
from farm.core.pools.spec import Behaviour, PoolSpec


class BuilderSpec(Behaviour, frozen=True, kw_only=True, omit_defaults=True):
    """A builder, and how it behaves."""

    builder: Builder


def spec_of(pool: PoolSpec, builder: Builder) -> BuilderSpec:
    """Return one builder of a pool, which behaves as its pool says."""
    behaviour = {name: getattr(pool, name) for name in Behaviour.__struct_fields__}
    return BuilderSpec(builder=builder, **behaviour)
