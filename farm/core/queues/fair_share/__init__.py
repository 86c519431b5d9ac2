"""Fair share: a tree of invocations per platform queue, as in Buildbarn's scheduler."""
