"""The bugs that are reported to Beam still exist: a test that fails says which guard of ours may go."""

import pytest

from tests.upstream import shared_timer_id, side_input_twice

pytestmark = pytest.mark.sweep


def test_two_fused_dofns_with_one_timer_id_still_lose_elements() -> None:
    assert shared_timer_id.counts("a", "b", True) == (0, 16)
    assert shared_timer_id.counts("a", "b", False) == (16, 16)
    fixed = "Beam has fixed this: the ids of timers need no name of the transform (bounded_replay.py, unbounded/replay.py)"
    assert shared_timer_id.counts("a", "a", True) == (0, 0), fixed
    kept = shared_timer_id.counts("a", "a", False)
    assert sorted(kept) == [0, 16], fixed  # which of both keeps its elements differs from run to run


def test_a_side_input_whose_source_feeds_a_second_stateful_dofn_still_arrives_twice() -> None:
    assert side_input_twice.side_input(second=False) == [0, 1]
    fixed = "Beam has fixed this: blocks of a side input need not be told apart (_arranged in transforms/engine/broadcast.py)"
    assert side_input_twice.side_input(second=True) == [0, 0, 1, 1], fixed
