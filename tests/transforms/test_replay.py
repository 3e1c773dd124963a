"""The engine's outlet: blocks go out when they are full, and before that when what waits is large."""

from beam_joins.record import Record
from coders import read_block
from transforms.outlet import BLOCK_RECORDS, PENDING_BYTES, Outlet


def rows(outputs):
    return [read_block(block)[1].num_rows for _, (_, block) in outputs]


def test_a_block_goes_out_when_it_is_full():
    outlet = Outlet(partitions=1)
    for i in range(BLOCK_RECORDS + 1):
        outlet.send("rows", b"k", Record(b"k", b"v", i, i))
    assert rows(outlet.take()) == [BLOCK_RECORDS]
    assert [read_block(block)[1].num_rows for _, (_, block), _ in outlet.drain()] == [1]


def test_wide_records_do_not_wait_for_a_full_block():
    outlet = Outlet(partitions=1)
    wide = bytes(PENDING_BYTES // 4)
    for i in range(5):
        outlet.send("rows", b"k", Record(b"k", wide, i, i))
    assert rows(outlet.take()) == [4]
