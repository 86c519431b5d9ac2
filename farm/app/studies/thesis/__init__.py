"""The thesis on CI scheduling policies: chapters 4 to 6 played again, and its future work."""
