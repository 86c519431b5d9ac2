"""An independent check of a run."""
