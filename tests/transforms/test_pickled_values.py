"""Values that only pickle can write: refused, unless --beam_joins_pickled_values says otherwise."""

from pathlib import Path

import apache_beam as beam
import pytest
from apache_beam.options.pipeline_options import PipelineOptions
from apache_beam.runners.portability.fn_api_runner import FnApiRunner

from beam_joins import LatestTable, MapTable, TableFromChangelog, TableToChanges
from beam_joins.coders import pickles

REFUSED = r"a value of type tests\.transforms\.test_pickled_values\.Odd is written by pickle only"
NOT_READ = "a value that is pickled, and pickles are not accepted"


def unpickled(text):
    Path("unpickled").touch()
    return Odd(text)


class Odd:
    def __init__(self, text):
        self.text = text

    def __deepcopy__(self, memo):
        return self

    def __reduce__(self):
        return unpickled, (self.text,)


@pytest.fixture(autouse=True)
def here(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(pickles, "_accepted", set())


def run(records, *options):
    with beam.Pipeline(runner=FnApiRunner(), options=PipelineOptions(["--beam_joins_partitions=2", *options])) as p:
        odd = p | beam.Create(records) | "odd" >> beam.Map(Odd) | TableFromChangelog(key=text_of, timestamp_by=first)
        _ = (
            odd
            | MapTable(lambda key, value: value)
            | TableToChanges()
            | beam.Map(lambda change: change.new.text)
            | "print" >> beam.Map(print)
        )
        _ = odd | LatestTable() | beam.Map(lambda row: row[1].text) | "print rows" >> beam.Map(print)


def text_of(odd):
    return odd.text


def first(odd):
    return 5


def test_they_are_refused_in_a_run():
    with pytest.raises(Exception, match=REFUSED):
        run(["a"])
    assert not pickles.are_accepted()


def test_they_pass_where_the_option_says_so(capsys):
    run(["a"], "--beam_joins_pickled_values")
    assert capsys.readouterr().out == "a\na\n"
    assert Path("unpickled").exists()


def test_a_later_run_without_the_option_does_not_read_them_from_the_folder(monkeypatch, capsys):
    run(["a"], "--beam_joins_pickled_values", "--beam_joins_state=state")
    run([], "--beam_joins_pickled_values", "--beam_joins_state=state")
    assert capsys.readouterr().out == "a\na\na\n"
    present = {path: path.read_bytes() for path in Path("state").rglob("*") if path.is_file()}
    Path("unpickled").unlink()
    monkeypatch.setattr(pickles, "_accepted", set())
    with pytest.raises(Exception, match=NOT_READ):
        run([], "--beam_joins_state=state")
    assert not Path("unpickled").exists()
    assert {path: path.read_bytes() for path in Path("state").rglob("*") if path.is_file()} == present
