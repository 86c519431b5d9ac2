"""The fast lane: a scenario in columns, played by a compiled loop with the reference's results.

``choice`` says whether it plays, and ``coverage`` what it can play. ``load`` turns jobs into arrays
and ``play`` builders, both as ``layout`` has them; the ``kernel`` plays them, on ``heaps``; and
``story`` tells from its notes what the reference would have told. ``compiled`` keeps the code.
"""
