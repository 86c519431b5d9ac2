"""The compiled loop of the fast lane: the scheduler's steps, on arrays.

``loop`` is where to begin; ``dispatching``, ``contention``, ``lives`` (of builders) and ``plans``
(of provisioners) are rooms of ``farm.core`` said again, ``layout`` says what lies where.
"""
