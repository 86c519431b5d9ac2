"""Long-running farms: started, found, supervised, inspected, stopped."""
