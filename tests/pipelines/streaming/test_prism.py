"""The sources on Beam's Prism: what is there to its end, and what comes later."""

from pathlib import Path

import apache_beam as beam
import pytest
from apache_beam.options.pipeline_options import PipelineOptions

from beam_joins.io import ReadGrowingFiles
from tests.pipelines.streaming.jobs import count_windows, lines, wait_until, windows_of, written

pytestmark = pytest.mark.flink


@pytest.mark.parametrize("follow", [False, True], ids=["to the end", "followed"])
def test_files_are_read_on_prism_with_every_row_once(prism: str, tmp_path: Path, follow: bool) -> None:
    for name in ("in", "out"):
        (tmp_path / name).mkdir()
    (tmp_path / "in/a.jsonl").write_text(lines(range(1_500)))
    flags = ["--runner=PrismRunner", f"--prism_location={prism}", "--environment_type=LOOPBACK", "--streaming"]
    pipeline = beam.Pipeline(options=PipelineOptions([*flags, "--experiments=prism_disable_sdf_split"]))
    count_windows(pipeline | ReadGrowingFiles(f"{tmp_path}/in/*.jsonl", timestamp_by="at", follow=follow), tmp_path / "out")
    result = pipeline.run()
    if follow:
        wait_until(lambda: sorted(written(tmp_path / "out")) == windows_of(range(1_500)))
        (tmp_path / "in/b.jsonl").write_text(lines(range(1_500, 3_000)))
        wait_until(lambda: sorted(written(tmp_path / "out")) == windows_of(range(3_000)))
        result.cancel()
    else:
        result.wait_until_finish()
        numbers = sorted(number for _, _, actual in written(tmp_path / "out") for number in actual)
        assert numbers == list(range(1_500))
