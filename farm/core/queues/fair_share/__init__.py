"""Fair share: a tree of invocations per platform queue, as Buildbarn's scheduler has it."""
