"""Prometheus metrics, computed from what the driver observes and from the scheduler's counts.

``FarmMetrics`` is a scheduler's, ``service.ServiceMetrics`` any other service's; ``MetricsServer``
serves the readings of either.
"""
