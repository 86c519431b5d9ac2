"""What really happened on other farms: importers, one per source, and the bundle they write."""
