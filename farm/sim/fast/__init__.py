"""The fast lane: a scenario in columns, played by a compiled loop with the reference's results.

``coverage`` says what it can play, ``columns`` turns jobs and builders into arrays, ``kernel``
plays them, ``story`` tells from its notes what the reference would have told.
"""
