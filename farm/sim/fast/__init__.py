"""The fast engine: a compiled loop over columns, with the same results as the reference.

``choice`` decides whether to use it, and ``coverage`` what it covers. ``load`` turns jobs into
arrays and ``play`` pools; the compiled loop is in ``kernel/`` and halts where a provisioning
algorithm is called (``asking``); ``story`` makes the reference's records from its notes.
"""
