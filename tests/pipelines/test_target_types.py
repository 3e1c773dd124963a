"""What Arrow's types become in the targets that are written to."""

from typing import Any, get_args

import pyarrow as pa
import pytest

from beam_joins.pipelines.formats.types.target_types import Target, target_type
from beam_joins.values.exact_casts import as_plain, exact_cast
from beam_joins.values.exact_values import ValuePlace
from tests.beam_joins.types_of_columns import LEAVES, VALUES_ONLY, Sample

SAMPLES = [Sample(kind, list(values)) for kind, values in (LEAVES | VALUES_ONLY).items()]
NONE_IN_DELTA = {
    *("decimal32(5, 2)", "decimal64(12, 2)", "decimal256(50, 2)", "timestamp[ns]", "timestamp[ns, tz=UTC]"),
    *("time32[s]", "time32[ms]", "time64[us]", "time64[ns]", "duration[s]", "duration[ms]", "duration[us]", "duration[ns]"),
    *("extension<arrow.uuid>", "map<string, int64>", "month_day_nano_interval"),
}


@pytest.mark.parametrize("target", ["parquet", "delta"])
@pytest.mark.parametrize("sample", SAMPLES, ids=lambda sample: str(sample.type))
def test_the_type_of_a_target_holds_the_same_values_and_is_its_own_or_is_refused(sample: Sample, target: Target) -> None:
    if target == "delta" and str(sample.type) in NONE_IN_DELTA:
        with pytest.raises(ValueError, match="which Delta has no type for"):
            target_type(target, "x", sample.type)
        return
    kind = target_type(target, "x", sample.type)
    plain = as_plain(sample.column)
    assert exact_cast(plain.cast(kind), plain.type, ValuePlace("a column")).equals(plain)
    assert target_type(target, "x", kind) == kind


@pytest.mark.parametrize(
    ("target", "shown"),
    [("avro", "Avro"), ("connect", "Debezium"), ("delta", "Delta"), ("postgres", "PostgreSQL"), ("bigquery", "BigQuery")],
)
def test_a_type_that_a_target_has_not_is_refused_with_column_type_and_target(target: Any, shown: str) -> None:
    message = rf"column 'row\.age' is duration\[s\], which {shown} has no type for: leave it out \(--select, or MapTable\)"
    rows = pa.struct({"age": pa.duration("s")})
    if target == "postgres":
        message, rows = message.replace(r"row\.age", "row"), pa.duration("s")
    with pytest.raises(ValueError, match=message):
        target_type(target, "row", rows)


@pytest.mark.parametrize("target", get_args(Target))
def test_dictionaries_and_large_offsets_are_what_their_values_are(target: Target) -> None:
    spellings = [pa.string(), pa.large_string(), pa.dictionary(pa.int8(), pa.string())]
    assert len({str(target_type(target, "x", kind)) for kind in spellings}) == 1
