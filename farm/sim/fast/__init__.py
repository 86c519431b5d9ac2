"""The fast engine: a compiled loop over columns, with the same results as the reference.

``choice`` says whether it plays, and ``coverage`` what it can play. ``load`` turns jobs into arrays
and ``play`` pools; the compiled loop stands in ``kernel/``, halts where a provisioning algorithm
is to be asked (``asking``), and ``story`` tells from its notes what the reference would have told.
"""
