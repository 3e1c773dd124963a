"""What Python's garbage collector looks at in a command, and in the workers of its job."""

import gc
import subprocess
import sys

import apache_beam as beam
import pytest

from beam_joins import runner
from beam_joins.pipelines.base.garbage_collection import uncollected_import

PROGRAM = """
import gc
from beam_joins.pipelines.base.garbage_collection import uncollected_import

collected = []
gc.callbacks.append(lambda phase, _: collected.append(phase))
with uncollected_import():
    import apache_beam
meanwhile = len(collected)
gc.collect()
print(meanwhile, gc.get_freeze_count() > 100_000, gc.isenabled(), len(gc.get_objects()) < 10_000, len(collected))
"""


@pytest.mark.process
@pytest.mark.gate
def test_the_collector_rests_while_beam_is_imported_and_never_looks_at_its_modules():
    message = subprocess.run([sys.executable, "-c", PROGRAM], capture_output=True, text=True, check=True).stdout
    assert message.split() == ["0", "True", "True", "True", "2"]


def test_where_beam_is_there_already_nothing_changes_for_the_collector():
    before = gc.get_freeze_count()
    with uncollected_import():
        assert gc.isenabled()
    assert gc.get_freeze_count() == before


def frozen(_: int) -> int:
    return gc.get_freeze_count()


@pytest.mark.spark
@pytest.mark.sweep
def test_workers_of_spark_share_what_was_imported_and_do_not_look_at_it(tmp_path):
    with (
        runner(beam.options.pipeline_options.PipelineOptions(["--runner=SparkRunner"])) as options,
        beam.Pipeline(options=options) as p,
    ):
        _ = p | beam.Create([0]) | beam.Map(frozen) | beam.io.WriteToText(str(tmp_path / "frozen"))
    assert int("".join(path.read_text() for path in tmp_path.glob("frozen*"))) > 100_000
