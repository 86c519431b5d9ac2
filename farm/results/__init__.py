"""What a run leaves: event log, job records, summaries, comparisons."""
