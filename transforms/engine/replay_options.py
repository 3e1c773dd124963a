"""The pipeline options of the engine, and what follows from them."""

from typing import Any

from apache_beam.options.pipeline_options import PipelineOptions
from apache_beam.pvalue import PCollection

from beam_joins.coders import pickles
from beam_joins.transforms.engine.partitions import CORES, DEFAULT_PARTITIONS
from beam_joins.transforms.engine.state_folder import StateFolder, folder_of

BROADCAST_BYTES = 32 << 20
REMEMBER_DELETES = 2 * 24 * 60 * 60


class ReplayOptions(PipelineOptions):
    """Pipeline options of the engine, each of which begins with ``--beam_joins``."""

    @classmethod
    def _add_argparse_args(cls, parser: Any) -> None:
        parser.add_argument(
            "--beam_joins_partitions",
            type=int,
            metavar="N",
            help="in how many partitions at most input is replayed; no result depends on it, only time and memory do"
            f" (default: {DEFAULT_PARTITIONS}; with --streaming the number of cores, {CORES})",
        )
        parser.add_argument(
            "--beam_joins_broadcast_bytes",
            type=int,
            default=BROADCAST_BYTES,
            metavar="N",
            help="how large the right table of a foreign-key join may be, by what its reader says, to be copied to every worker; 0: never"
            f" (default: {BROADCAST_BYTES})",
        )

        parser.add_argument(
            "--beam_joins_state",
            metavar="DIR",
            help="a folder, of any filesystem that Beam knows, for what the transforms remember: the run goes on where the last one with this"
            " folder ended (default: nothing is remembered)",
        )
        parser.add_argument(
            "--beam_joins_remember_deletes",
            type=float,
            default=REMEMBER_DELETES,
            metavar="SECONDS",
            help="how much older than the latest event time of the runs before a delete may be, so that a late record does not bring back its row"
            f" (default: {REMEMBER_DELETES}, two days)",
        )
        parser.add_argument(
            pickles.OPTION,
            action="store_true",
            help="write values of types that have no other encoding with pickle, and read them, which runs whatever code they name: only where nobody else"
            " can write what is read, the folder of a state above all (default: such values are refused)",
        )


def take_note_of_pickles(pcoll: PCollection[Any]) -> None:
    """Accept pickles from now on if the options of a collection's pipeline say so."""
    if pcoll.pipeline.options.view_as(ReplayOptions).beam_joins_pickled_values:
        pickles.accept()


def has_one_turn(pcoll: PCollection[Any]) -> bool:
    """Whether all rows have their turn at once: the input is bounded, and no run was before or will be after."""
    return bool(pcoll.is_bounded) and folder_for(pcoll) is None


def folder_for(pcoll: PCollection[Any]) -> StateFolder | None:
    """The folder of what the runs of a collection's pipeline remember, if they do."""
    return folder_of(pcoll.pipeline, pcoll.pipeline.options.view_as(ReplayOptions).beam_joins_state)
