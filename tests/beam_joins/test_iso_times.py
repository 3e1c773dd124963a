"""The instant that a text in ISO 8601 means; other texts, and those that may mean two instants, are refused."""

from datetime import UTC, datetime

import pytest

from beam_joins.elements.iso_times import EPOCH, micros_of_text

MARCH = datetime(2026, 3, 1, tzinfo=UTC)


def at(hours: float = 0, day: int = 1) -> int:
    return (MARCH - EPOCH).days * 86_400_000_000 + (day - 1) * 86_400_000_000 + round(hours * 3_600_000_000)


MEANT = {
    "2026-03-01": at(),
    "2026-03-01Z": at(),
    "2026-03-01z": at(),
    "2026-03-01+05:30": at(-5.5),
    "2026-03-01-05:00": at(5),
    "2026-03-01-0500": at(5),
    "20260301+0530": at(-5.5),
    "2026-W09-7": at(),
    "2026-W09-7T08Z": at(8),
    "2026-W09-7+05:30": at(-5.5),
    "2026-060": at(),
    "2026-060T08:00-01:00": at(9),
    "2024-366": at() - 425 * 86_400_000_000,
    "2026-03-01t08:00:00z": at(8),
    "2026-03-01 08:00:00+0530": at(2.5),
    "2026-03-01 08:00:00+05": at(3),
    "2026-03-01T08:00:00,25Z": at(8) + 250_000,
    "2026-03-01T08:00:00.123456789012Z": at(8) + 123_456,
    "2026-03-01T24:00:00Z": at(day=2),
    "2026-03-01T24:00:00.000": at(day=2),
    "2026-03-01T24:00+05:30": at(18.5),
    "20260301T240000Z": at(day=2),
    "2026-03-01T12:24:00": at(12.4),
    "2026-03-01_08:00": at(8),
    "2026-03-01+08:00:00": at(8),
    "2026-03-01-08:00:00": at(8),
}


@pytest.mark.parametrize("text", MEANT)
def test_a_text_is_the_instant_that_its_form_means(text: str) -> None:
    assert micros_of_text(text) == MEANT[text]


@pytest.mark.parametrize("text", ["2026-03-01-08", "2026-03-01+05", "2026-03-01-15:30", "2026-03-01-24:00"])
def test_a_date_before_what_may_be_a_zone_or_a_time_of_day_is_refused(text: str) -> None:
    with pytest.raises(ValueError, match=r"zone|offset|minute"):
        micros_of_text(text)


@pytest.mark.parametrize(
    "text",
    [
        *(
            "",
            " 2026-03-01",
            "2026-03-01 ",
            "2026-03-01T",
            "2026-3-1",
            "2026-03",
            "20260301",
            "1772352000",
            "-2026-03-01",
            "+2026-03-01",
        ),
        *("0000-01-01", "0000-00-00 00:00:00", "10000-01-01", "2026-366", "2026-000", "2026-W54-1", "2026-02-29", "2026-02-29+05:30"),
        *("2026-03-01T23:59:60Z", "2026-03-01T24:00:01Z", "2026-03-01T24:30", "2026-03-01T08:00 AM", "2026-03-01T08:00\u221205:00"),
        "\uff12\uff10\uff12\uff16-03-01",
    ],
)
def test_another_text_is_refused(text: str) -> None:
    with pytest.raises(ValueError):  # noqa: PT011
        micros_of_text(text)
