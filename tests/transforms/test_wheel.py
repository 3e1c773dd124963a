"""Blocks that wait come out when they are due, and are seldom read before."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from beam_joins.transforms.engine.ticks import Ticks
from beam_joins.transforms.engine.unbounded.wheel import Waiting, Wheel, wheel_specs

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
        self.bags = [Bag() for _ in wheel_specs("any")[1:]]
        self.cells = [Cell(), *self.bags]

    def wheel(self):
        return Wheel(TICKS, self.cells)


def block(number, position, content=b"rows"):
    return Waiting(number * TICKS.micros - 20_000, position, content)


numbers = st.integers(-600, 600) | st.integers(0, 20) | st.integers(-(2**40), 2**40)
steps = st.lists(
    st.tuples(st.just("add"), numbers, st.integers(-50, 50))
    | st.tuples(st.just("due"), numbers, st.just(0))
    # time goes on
    | st.tuples(st.just("on"), st.integers(1, 70), st.just(0))
    | st.tuples(st.just("up to"), st.just(0), st.integers(-50, 50)),
    max_size=60,
)


@given(steps)
def test_whatever_the_order_the_blocks_that_are_due_come_out_and_no_other(steps):
    states, waiting, now = States(), [], 0
    for step, number, position in steps:
        wheel = states.wheel()
        if step == "add":
            waiting.append(block(number, position, str(len(waiting)).encode()))
            wheel.add(waiting[-1])
        else:
            now = number if step == "due" else now + number if step == "on" else now
            tick = block(now, 0).due
            is_wanted = (lambda each, tick=tick: each.due <= tick) if step != "up to" else lambda each, by=position: each.least <= by
            taken = wheel.up_to(position) if step == "up to" else wheel.due(tick)
            assert sorted(taken) == sorted(filter(is_wanted, waiting))
            waiting = [each for each in waiting if not is_wanted(each)]
        wheel.write()
    assert sorted(Waiting.read(each) for bag in states.bags for each in bag.elements) == sorted(waiting)


@pytest.mark.parametrize("ahead", [1, 7, 60, 500])
def test_blocks_that_are_ticks_ahead_are_written_three_times_at_most_and_read_as_often(ahead):
    states, ticks = States(), 1_000
    for now in range(ticks):
        wheel = states.wheel()
        wheel.add(block(now + ahead, 0))
        assert len(wheel.due(block(now, 0).due)) == (now >= ahead)
        wheel.write()
    added, read = (sum(getattr(bag, counted) for bag in states.bags) for counted in ("added", "read_again"))
    assert added <= 3 * ticks + ahead
    assert read <= added
