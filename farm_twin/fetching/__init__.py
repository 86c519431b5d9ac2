"""What a CI system recorded, fetched from its API: whole days, within its limits, resumable."""
