"""Commands that say what is to come: when jobs start, and what another farm would do."""
