"""A made-up shop's orders and customers, as change data capture would show its database: late, repeated and
skewed.

One seed gives the same changes on every machine: the only source of chance is ``random.Random.random``, whose
sequence Python promises to keep, and nothing depends on the last bit of a floating point number.
"""

from array import array
from bisect import bisect_right
from collections.abc import Iterator
from itertools import accumulate
from random import Random
from typing import Final, NamedTuple

STATUSES: Final = ("placed", "paid", "packed", "shipped", "delivered")
CANCELLED: Final = 5
STATUS_NAMES: Final = (*STATUSES, "cancelled")
CITIES: Final = ("Aarhus", "Bergen", "Cusco", "Dakar", "Erfurt", "Faro", "Genoa", "Hanoi", "Izmir", "Jaipur", "Kyoto", "Lima")
SEGMENTS: Final = ("household", "business", "school", "club")
FIRST_NAMES: Final = ("Ada", "Boris", "Chen", "Dalia", "Emil", "Fatou", "Goran", "Hana", "Ines", "Jan", "Kofi", "Lena", "Musa")
LAST_NAMES: Final = ("Adler", "Brandt", "Costa", "Diallo", "Eriksen", "Fischer", "Garcia", "Haddad", "Ito", "Jansen", "Kaya")

FIRST_CUSTOMER: Final = 1_000
FIRST_COMMIT: Final = 1_767_225_600_000_000
"""2026-01-01 00:00 UTC, in microseconds."""
MOST_OPEN_ORDERS: Final = 10_000
MOST_LATE: Final = 1_000
"""The most lines by which a line can come behind its turn."""


class OrderChange(NamedTuple):
    """One line about an order.

    ``amount`` is in cents, ``updated_at`` in microseconds; a delete has only its key.
    """

    order_id: int | None
    customer_id: int | None
    amount: int | None
    status: str | None
    op: str
    lsn: int
    updated_at: int


class CustomerChange(NamedTuple):
    """One line about a customer. ``updated_at`` is in microseconds; a delete has only its key."""

    customer_id: int | None
    name: str | None
    city: str | None
    segment: str | None
    op: str
    lsn: int
    updated_at: int


class SampleLine(NamedTuple):
    """A change and by how many lines of its file it comes late."""

    change: OrderChange | CustomerChange
    late: int


class OpenOrder(NamedTuple):
    """An order that can still change; ``status`` is an index of STATUS_NAMES."""

    order_id: int
    customer_id: int | None
    amount: int
    status: int


class Shop:
    """Runs the shop, transaction by transaction, until that many lines about orders and about customers are
    said.

    ``orders`` and ``customers`` count lines, repeated ones too; about half of the customer lines are first
    inserts. Memory: 11 bytes a customer, and at most 10,000 open orders whatever the number of lines.

    >>> lines = list(Shop(orders=100, customers=20, seed=1).lines())
    >>> sum(isinstance(line.change, OrderChange) for line in lines), len(lines)
    (100, 120)
    """

    def __init__(self, *, orders: int, customers: int, seed: int) -> None:
        if orders < 0 or customers < 0:
            raise ValueError("the numbers of lines must be 0 or more")
        self._orders_left = orders
        self._customers_left = customers
        self._chance = Random(seed).random
        self._most_open = min(MOST_OPEN_ORDERS, max(5, orders // 10))
        self._open: list[OpenOrder] = []
        self._next_order = 1
        self._population = max(1, customers // 2)
        self._popularity = zipf_steps(self._population)
        self._born = 0
        self._alive = bytearray(self._population)
        self._city = bytearray(self._population)
        self._segment = bytearray(self._population)

    def lines(self) -> Iterator[SampleLine]:
        """All lines of both tables, in commit order; ``late`` says how far back to move each."""
        chance = self._chance
        lsn, now = 100_000, FIRST_COMMIT
        while self._orders_left or self._customers_left:
            lsn += 1 + int(chance() * 40)
            now += 1 + int(chance() * 200_000)
            touched: set[int | None] = set()
            for _ in range(1 if chance() < 0.8 else 2 + int(chance() * 3)):
                at = now if chance() < 0.9 else now - int(chance() * 2_000_000)
                change: OrderChange | CustomerChange | None
                if chance() * (self._orders_left + self._customers_left) < self._orders_left:
                    change = self._order(touched, lsn, at)
                elif self._customers_left:
                    change = self._customer(touched, lsn, at)
                else:
                    return
                if change is not None:
                    yield from self._say(change)
                    if change.op == "d" and chance() < 0.25:  # some sources send a delete again, in a commit of its own
                        lsn += 1
                        yield from self._say(change._replace(lsn=lsn))
                        break

    def _say(self, change: OrderChange | CustomerChange) -> Iterator[SampleLine]:
        """The change, and now and then late, or with a second copy, or with a copy that has lost its key."""
        odd = self._chance()
        copies = [SampleLine(change, self._lateness() if odd < 0.02 else 0)]
        if 0.02 <= odd < 0.025:
            copies.append(SampleLine(change, self._lateness()))
        elif 0.025 <= odd < 0.0252:
            no_key: OrderChange | CustomerChange
            no_key = change._replace(order_id=None) if isinstance(change, OrderChange) else change._replace(customer_id=None)
            copies.append(SampleLine(no_key, 0))
        for line in copies:
            if isinstance(change, OrderChange):
                if not self._orders_left:
                    return
                self._orders_left -= 1
            else:
                if not self._customers_left:
                    return
                self._customers_left -= 1
            yield line

    def _lateness(self) -> int:
        return 1 + int(self._chance() * MOST_LATE)

    def _order(self, touched: set[int | None], lsn: int, at: int) -> OrderChange | None:
        chance, open_orders = self._chance, self._open
        if not open_orders or (chance() < 0.3 and len(open_orders) < self._most_open):
            order = OpenOrder(self._next_order, self._customer_of_order(), 100 + int(chance() ** 3 * 50_000), 0)
            self._next_order += 1
            touched.add(order.order_id)
            open_orders.append(order)
            return OrderChange(order.order_id, order.customer_id, order.amount, STATUSES[0], "c", lsn, at)
        place = int(chance() * len(open_orders))
        order = open_orders[place]
        if order.order_id in touched:
            return None
        touched.add(order.order_id)
        what = chance()
        if what < 0.06:
            self._close(place)
            return OrderChange(order.order_id, None, None, None, "d", lsn, at)
        if what < 0.12:
            order = order._replace(customer_id=self._customer_of_order())
        elif what < 0.45:
            order = order._replace(amount=100 + int(chance() ** 3 * 50_000))
        elif what < 0.50:
            order = order._replace(status=CANCELLED)
        else:
            order = order._replace(status=order.status + 1)
        if order.status >= len(STATUSES) - 1:
            self._close(place)
        else:
            open_orders[place] = order
        return OrderChange(order.order_id, order.customer_id, order.amount, STATUS_NAMES[order.status], "u", lsn, at)

    def _close(self, place: int) -> None:
        last = self._open.pop()
        if place < len(self._open):
            self._open[place] = last

    def _customer_of_order(self) -> int | None:
        """A known customer nine times in ten; else one yet to come, one who never comes, or none."""
        chance = self._chance
        odd = chance()
        if odd < 0.01:
            return None
        if odd < 0.02:
            return FIRST_CUSTOMER + self._population + int(chance() * 50)
        rank = bisect_right(self._popularity, int(chance() * self._popularity[-1]))
        if rank >= self._born and self._born and odd < 0.9:
            rank %= self._born
        return FIRST_CUSTOMER + rank

    def _customer(self, touched: set[int | None], lsn: int, at: int) -> CustomerChange | None:
        chance = self._chance
        if self._born < self._population and (not self._born or chance() < 0.8):
            who = self._born
            self._born += 1
        else:
            who = int(chance() * self._born)
        customer_id = FIRST_CUSTOMER + who
        if -customer_id in touched:
            return None
        touched.add(-customer_id)
        if self._alive[who] and chance() < 0.05:
            self._alive[who] = 0
            return CustomerChange(customer_id, None, None, None, "d", lsn, at)
        op = "u" if self._alive[who] else "c"
        self._alive[who] = 1
        self._city[who] = int(chance() * len(CITIES))
        if op == "c":
            self._segment[who] = int(chance() * len(SEGMENTS))
        name = f"{FIRST_NAMES[who % len(FIRST_NAMES)]} {LAST_NAMES[who % len(LAST_NAMES)]}"
        return CustomerChange(customer_id, name, CITIES[self._city[who]], SEGMENTS[self._segment[who]], op, lsn, at)


def zipf_steps(ranks: int) -> "array[int]":
    """Running sums of the whole-numbered weights of a Zipf distribution (exponent 1.1) over the ranks 0, 1,
    2, ...

    >>> list(zipf_steps(3))
    [4294967296, 6298640388, 7581344482]
    """
    return array("q", accumulate(int(2**32 / (rank + 1) ** 1.1) for rank in range(ranks)))
