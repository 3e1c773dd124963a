"""All that test_unbounded builds, as one pipeline."""

import apache_beam as beam

from tests.transforms.test_unbounded import STREAMS, TABLES, changes

BUILDS = {**{name: changes(name) for name in TABLES}, **STREAMS}


class Named(beam.PTransform):
    """What a build gives, each element with its name."""

    def __init__(self, name):
        super().__init__(name)
        self._name = name

    def expand(self, inputs):
        return BUILDS[self._name](*inputs) | "Named" >> beam.Map(lambda element, name: (name, element), self._name)


ONE_OF_A_KIND = (
    "a foreign-key join, left",
    "a foreign-key join of lists",
    "one to many",
    "a join by key, outer",
    "a join by key of three",
    "an aggregate",
    "windows with the ones before",
    "windows with a table",
    "two streams, outer",
    "a stream with a table, left",
    "a stream with the row it refers to",
)
"""Builds with a join of each kind."""


def all_of_them(left, right):
    """The elements of all builds, each with the name of its own."""
    return [(left, right) | Named(name) for name in BUILDS] | beam.Flatten()


def one_of_a_kind(left, right):
    """Those of a join of each kind."""
    return [(left, right) | Named(name) for name in ONE_OF_A_KIND] | beam.Flatten()
