"""The fast engine: a compiled loop over columns, with the same results as the reference.

``choice`` says what it covers, and decides whether to use it. ``load`` turns jobs into arrays and
``play`` pools; the compiled loop is in ``kernel/`` and halts where a provisioning algorithm is
called; ``story`` makes the reference's records from its notes.
"""
