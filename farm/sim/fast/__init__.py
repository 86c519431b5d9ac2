"""The fast lane: a scenario in columns, played by a compiled loop with the reference's results.

``choice`` says whether it plays, and ``coverage`` what it can play. ``load`` turns jobs into arrays
and ``play`` pools; the compiled loop stands in ``kernel/``, halts where a provisioning algorithm
is to be asked (``asking``), and ``story`` tells from its notes what the reference would have told.
"""
