"""Bounded input gives the same results on a runner that runs all stages at once and fires a timer as soon as the watermark has reached it."""

import apache_beam as beam
import pytest
from apache_beam.runners.portability.fn_api_runner import FnApiRunner

from tests.transforms.test_unbounded import STREAMS, TABLES, changes
from tests.transforms.unbounded_runs import bounded, given, given_on_prism, history

BUILDS = {**{name: changes(name) for name in TABLES}, **STREAMS}


class Named(beam.PTransform):
    """What a build gives, each element with its name."""

    def __init__(self, name):
        super().__init__(name)
        self._name = name

    def expand(self, inputs):
        return BUILDS[self._name](*inputs) | "Named" >> beam.Map(lambda element, name: (name, element), self._name)


def all_of_them(left, right):
    return [(left, right) | Named(name) for name in BUILDS] | beam.Flatten()


@pytest.mark.usefixtures("prism")
def test_bounded_input_has_the_same_results_on_prism():
    events = history(3, events=600, deletes=False)
    expected = given(FnApiRunner(), bounded, events, all_of_them)
    assert sorted(map(repr, given_on_prism(bounded, events, all_of_them, "--beam_joins_partitions=8"))) == sorted(map(repr, expected))
