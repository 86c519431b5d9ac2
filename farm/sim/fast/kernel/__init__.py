"""The compiled loop of the fast lane: the scheduler's steps, on arrays; begin with ``loop``."""
