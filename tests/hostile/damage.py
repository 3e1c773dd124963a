"""Bytes as they come out of a failing disk or of someone who means harm: cut, flipped, spliced, and with
numbers that promise too much.
"""

import os
from collections.abc import Sequence

from hypothesis import strategies as st

TIMES = int(os.environ.get("BEAM_JOINS_FUZZ", "1"))
"""So many times as many examples: make a night of it with BEAM_JOINS_FUZZ=1000."""
_HUGE = (-1, 2**31 - 1, 2**32 - 1, 10 << 30, 2**62, 2**63 - 1)


@st.composite
def damaged(draw: st.DrawFn, written: Sequence[bytes], words: Sequence[bytes] = (b"",)) -> bytes:
    """One of what was written, damaged in up to three places; ``words`` are what may be written over it."""
    data = draw(st.sampled_from(written))
    for _ in range(draw(st.integers(1, 3))):
        at = draw(st.integers(0, max(len(data) - 1, 0)))
        head, tail = data[:at], data[at:]
        match draw(st.integers(0, 6)):
            case 0 if tail:
                data = head + bytes([tail[0] ^ 1 << draw(st.integers(0, 7))]) + tail[1:]
            case 1:
                data = head + draw(st.binary(min_size=1, max_size=4)) + tail[1:]
            case 2:
                data = head
            case 3:
                data = head + tail[draw(st.integers(1, 8)) :]
            case 4:
                other = draw(st.sampled_from(written))
                data = head + other[draw(st.integers(0, len(other))) :]
            case 5:
                size, order = draw(st.sampled_from([4, 8])), draw(st.sampled_from(["big", "little"]))
                number = draw(st.sampled_from(_HUGE)) % (1 << 8 * size)
                data = head + number.to_bytes(size, order) + tail[size:]  # type: ignore[arg-type]
            case _:
                data = head + draw(st.sampled_from(words)) + tail[draw(st.integers(0, 8)) :]
    return data
