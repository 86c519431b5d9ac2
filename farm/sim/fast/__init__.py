"""The compiled engine: a loop over columns, with the same results as the reference.

It is played through ``door``. ``coverage`` says what it covers; ``job_arrays`` turns jobs into
arrays and ``play`` pools. The loop is in ``kernel/`` and halts where a provisioning algorithm is
called; ``run_records`` and ``event_log`` make the reference's records and event log from its
arrays.

``compiler/`` makes C of the loop's Python; without an object the reference plays everything.
"""
