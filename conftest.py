"""Settings of all tests: no property test is judged by time."""

from __future__ import annotations

from hypothesis import HealthCheck, settings

settings.register_profile("usual", deadline=None, suppress_health_check=[HealthCheck.too_slow])
settings.register_profile("thorough", deadline=None, max_examples=2000, suppress_health_check=[HealthCheck.too_slow])
settings.load_profile("usual")
