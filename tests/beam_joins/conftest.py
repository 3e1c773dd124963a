"""Kernels by themselves have no coder of values that are Python objects: in their tests it is Beam's. Hypothesis has no deadline, for the machine may be busy."""

from hypothesis import settings

from beam_joins.coders import beam_values as beam_values

settings.register_profile("kernels", deadline=None, print_blob=True)
settings.load_profile("kernels")
