"""How long hypothesis looks: ``--hypothesis-profile thorough`` for a long search, the short one otherwise."""

from __future__ import annotations

from hypothesis import HealthCheck, settings

_CALM = [HealthCheck.too_slow, HealthCheck.data_too_large, HealthCheck.filter_too_much]

settings.register_profile("brief", max_examples=60, deadline=None, suppress_health_check=_CALM)
settings.register_profile("thorough", max_examples=3000, deadline=None, suppress_health_check=_CALM)
settings.load_profile("brief")
