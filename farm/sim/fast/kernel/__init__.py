"""The compiled loop of the fast engine: the scheduler's steps, on arrays.

Start with ``loop``; ``dispatching``, ``contention``, ``lives`` (of builders) and ``plans`` (of
provisioners) repeat packages of ``farm.core``, ``layout`` defines the arrays.
"""
