"""The results of a run: event log, job records, summaries, comparisons."""
