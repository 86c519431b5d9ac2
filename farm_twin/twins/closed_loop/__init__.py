"""Load that answers back: which jobs others release, and which runs newer pushes cancel."""
