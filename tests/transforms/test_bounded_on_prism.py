"""Bounded input gives the same results on a runner that runs all stages at once and fires a timer as soon as
the watermark has reached it.
"""

import pytest
from apache_beam.runners.portability.fn_api_runner import FnApiRunner

from tests.transforms.all_builds import all_of_them
from tests.transforms.unbounded_runs import bounded, elements_of, given_on_prism, history


@pytest.mark.usefixtures("prism")
def test_bounded_input_has_the_same_results_on_prism():
    events = history(3, events=600, deletes=False)
    expected = elements_of(FnApiRunner(), bounded, events, all_of_them)
    assert sorted(map(repr, given_on_prism(bounded, events, all_of_them, "--beam_joins_partitions=8"))) == sorted(map(repr, expected))
