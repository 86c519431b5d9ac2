"""The sizing of a pool in a scenario: its provisioner, presets, and times of the week."""
