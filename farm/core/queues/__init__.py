"""The jobs waiting for one platform: in plain order, or by fair share."""
