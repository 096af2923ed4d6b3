"""Settings of all tests: the same examples in every run, so that a failure is a fact and not a chance."""

from hypothesis import settings

settings.register_profile("same-every-time", derandomize=True, deadline=None)
settings.load_profile("same-every-time")
