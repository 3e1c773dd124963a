"""Kernels by themselves have no coder of values that are Python objects: in their tests it is Beam's."""

from beam_joins.coders import beam_values as beam_values
