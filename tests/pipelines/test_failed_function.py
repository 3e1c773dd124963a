"""What the commands say of a function that raised: one sentence, with the function's own exception."""

from pathlib import Path

import apache_beam as beam
import pytest
from apache_beam.runners.portability.fn_api_runner import FnApiRunner

from beam_joins import Change, FunctionFailed, MapTable
from beam_joins.errors import InputError
from beam_joins.pipelines.commands.command_line import FAILED, WRONG_INPUT, sentence_and_code
from beam_joins.pipelines.spark import JobFailed

SENTENCE = "Prices: fn raised ZeroDivisionError: division by zero for the key 'k', given 0"


def error_of(fn) -> Exception:
    with pytest.raises(Exception) as caught, beam.Pipeline(runner=FnApiRunner()) as p:  # noqa: PT011
        p | beam.Create([Change("k", None, 0, 0, 0)]) | "Prices" >> MapTable(fn)
    return caught.value


def test_a_function_that_raises_is_one_sentence_and_no_stack_trace():
    sentence, code = sentence_and_code(error_of(lambda key, value: 1 / value))
    assert isinstance(sentence, FunctionFailed)
    assert (str(sentence), code) == (SENTENCE, FAILED)


def test_it_is_found_in_what_spark_wrote_down():
    text = f"the job failed:\n  File 'shop.py', line 7\nbeam_joins.function_failed.FunctionFailed: {SENTENCE}\nThe log is x."
    sentence, code = sentence_and_code(JobFailed(text, log=Path("x"), user=True))
    assert (str(sentence), code) == (SENTENCE, FAILED)


def test_what_is_wrong_with_the_input_stays_that():
    def fn(key, value):
        raise InputError("orders.jsonl:3: not JSON")

    sentence, code = sentence_and_code(error_of(fn))
    assert (str(sentence), code) == ("orders.jsonl:3: not JSON", WRONG_INPUT)
