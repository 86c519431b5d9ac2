"""The thesis on CI scheduling policies: chapters 4 to 6 repeated, and its future work."""
