"""What all tests share: Hypothesis judges what comes out, never how long it takes."""

from hypothesis import HealthCheck, settings

# A machine that does other work as well takes any time for anything.
settings.register_profile("patient", deadline=None, suppress_health_check=[HealthCheck.too_slow])
settings.load_profile("patient")
