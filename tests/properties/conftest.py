"""Hypothesis for these tests: no deadline, for the machine may be busy, and the failing example is printed so that it can be replayed."""

from hypothesis import settings

settings.register_profile("properties", deadline=None, print_blob=True, max_examples=300)
settings.load_profile("properties")
