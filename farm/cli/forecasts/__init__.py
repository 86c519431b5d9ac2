"""Commands that forecast: when jobs will start, and what a changed farm would do."""
