"""The compiled engine: a loop over columns, with the same results as the reference.

``coverage`` says what it covers; ``job_arrays`` turns jobs into arrays and ``play`` pools. The
loop is in ``kernel/`` and halts where a provisioning algorithm is called; ``run_records`` and
``event_log`` make the reference's records and event log from its arrays.

The loop is compiled beforehand (``kernel/build.py``); without that the reference plays everything.
"""
