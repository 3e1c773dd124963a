"""Blocks that wait come out when they are due, and are seldom read before."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from beam_joins.transforms.engine.turns.ticks import Ticks
from beam_joins.transforms.engine.unbounded import tick_buckets
from beam_joins.transforms.engine.unbounded.tick_buckets import WaitingBlock, Wheel, wheel_specs

TICKS = Ticks(1_000_000)


class Cell:
    """A state of one value."""

    value = None

    def read(self):
        return self.value

    def write(self, value):
        self.value = value


class Bag:
    """A bag that counts what is written and read."""

    def __init__(self):
        self.elements, self.added, self.read_again = [], 0, 0

    def add(self, element):
        self.added += 1
        self.elements.append(element)

    def read(self):
        self.read_again += len(self.elements)
        return list(self.elements)

    def clear(self):
        self.elements = []


class States:
    """The states of a partition; each wheel of them is a new one, as in each call of a DoFn."""

    def __init__(self):
        self.head, self.arrived, *self.bags = Cell(), *(Bag() for _ in wheel_specs("any"))

    def wheel(self, now):
        return Wheel(TICKS, block(now, 0).due, self.arrived, [self.head, *self.bags])

    def elements(self):
        return [element for bag in (self.arrived, *self.bags) for element in bag.elements]


def block(number, position, content=b"rows"):
    return WaitingBlock(number * TICKS.micros - 20_000, position, content)


# how many ticks ahead of the present one, which may be before the epoch
ahead = st.sampled_from([1, 2]) | st.integers(-5, 20) | st.integers(0, 1_000) | st.integers(-(2**40), 2**40)
steps = st.lists(
    st.tuples(st.sampled_from(["arrives", "put back"]), ahead, st.integers(0, 20))
    | st.tuples(st.just("due"), st.sampled_from([1, 1, 2, 7, 8, 9, 63, 64, 65, 600, 0, -1, -9]), st.just(0))
    | st.tuples(st.just("up to"), st.just(0), st.integers(0, 20)),
    min_size=20,
    max_size=80,
)


@pytest.mark.parametrize("few", [0, 40, 1 << 20])
@given(steps)
def test_whatever_the_order_the_blocks_that_are_due_come_out_and_no_other(few, steps):
    states, waiting, now = States(), [], -3
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(tick_buckets, "_FEW_BYTES", few)
        for step, number, position in steps:
            if step == "arrives":
                waiting.append(block(now + number, position, str(len(waiting)).encode()))
                states.arrived.add(waiting[-1].written())
                continue
            now += number if step == "due" else 0
            tick, turn = block(now, 0).due, states.wheel(now)
            assert sorted(turn.due) == sorted(each for each in waiting if each.due <= tick)
            waiting = [each for each in waiting if each.due > tick]
            if step == "up to":
                taken = turn.up_to(position)
                assert sorted(taken) == sorted(each for each in waiting if each.least <= position)
                waiting = [each for each in waiting if each.least > position]
            if step == "put back":  # the rest of a block
                waiting.append(block(now + number, position, b"put back"))
                turn.add(waiting[-1])
            turn.write()
            assert sorted(map(WaitingBlock.read, states.elements())) == sorted(waiting)


@pytest.mark.parametrize("ahead", [1, 7, 60, 500])
def test_blocks_that_are_ticks_ahead_are_written_four_times_at_most_and_read_as_often(ahead, monkeypatch):
    monkeypatch.setattr(tick_buckets, "_FEW_BYTES", 0)
    states, ticks = States(), 1_000
    for now in range(ticks):
        states.arrived.add(block(now + ahead, 0).written())
        turn = states.wheel(now)
        assert len(turn.due) == (now >= ahead)
        turn.write()
    added, read = (sum(getattr(bag, counted) for bag in (states.arrived, *states.bags)) for counted in ("added", "read_again"))
    assert added <= 4 * ticks + ahead
    assert read <= added


def test_a_few_blocks_of_the_next_tick_stay_where_they_arrived():
    states = States()
    for number in (1, 1, 2):
        states.arrived.add(block(number, 0).written())
    turn = states.wheel(1)
    assert len(turn.due) == 2
    turn.write()
    assert len(states.arrived.elements) == 1
    turn = states.wheel(1)
    turn.write()
    assert states.arrived.added == 4, "what stays is not written again"
    assert not states.head.value
