"""The pipeline options of the engine, and the settings that follow from them."""

import logging
from difflib import get_close_matches
from functools import cache
from typing import Any

import pyarrow as pa
from apache_beam import Pipeline
from apache_beam.options.pipeline_options import DirectOptions, PipelineOptions
from apache_beam.pvalue import PBegin, PCollection

from beam_joins.coders import pickles
from beam_joins.errors import InputError
from beam_joins.transforms.engine.blocks.block_files import BlockFolder
from beam_joins.transforms.engine.blocks.block_folder import INLINE, block_folder
from beam_joins.transforms.engine.construction.fingerprints import label_of
from beam_joins.transforms.engine.construction.runner_abilities import abilities, has_several_workers
from beam_joins.transforms.engine.resumed.state_folder import StateFolder, folder_of
from beam_joins.transforms.engine.stages.partitions import CORES, DEFAULT_PARTITIONS, GROWING_PARTITIONS, PARTITION_BYTES
from beam_joins.transforms.engine.turns.stepped_turn import is_in_steps

BROADCAST_BYTES = 32 << 20
REMEMBER_DELETES = 2 * 24 * 60 * 60
MEMORY_MB = 512
_PREFIX = "beam_joins_"
_READ = "_beam_joins_options_read"
"""The name under which a pipeline remembers that its options were looked at."""
_log = logging.getLogger(__name__)


class ReplayOptions(PipelineOptions):
    """The pipeline options of the engine, whose names all begin with ``--beam_joins``."""

    @classmethod
    def _add_argparse_args(cls, parser: Any) -> None:
        parser.add_argument(
            "--beam_joins_partitions",
            type=int,
            metavar="N",
            help="in how many partitions at most input is replayed; no result depends on it, only time and memory do"
            f" (default: one for each {PARTITION_BYTES >> 20} MB of input, {DEFAULT_PARTITIONS} where its size is not known; in a new"
            f" folder of a state {GROWING_PARTITIONS} or more, then as in the run before, and in commands fewer while the state is"
            f" small; with --streaming the number of cores, {CORES})",
        )
        parser.add_argument(
            "--beam_joins_broadcast_bytes",
            type=int,
            default=BROADCAST_BYTES,
            metavar="N",
            help="how large the right table of a foreign-key join may be, by what its reader says, to be copied to "
            "every worker; 0: never"
            f" (default: {BROADCAST_BYTES})",
        )
        parser.add_argument(
            "--beam_joins_memory",
            type=int,
            default=MEMORY_MB,
            metavar="MB",
            help="about how much memory the rows of a partition may take in a worker while they have their turn; those "
            f"of a larger one have it in parts (default: {MEMORY_MB})",
        )
        parser.add_argument(
            "--beam_joins_blocks",
            metavar="DIR",
            help="a folder, of any filesystem that Beam knows, that all workers reach by this path: the rows that are shuffled lie "
            f"there, and the runner carries references to them; '{INLINE}': the runner carries the rows (default: the folder for "
            f"temporary files where all workers are on this machine and the input is bounded, else {INLINE})",
        )
        parser.add_argument(
            "--beam_joins_state",
            metavar="DIR",
            help="a folder, of any filesystem that Beam knows, for what the transforms remember: the run goes on where "
            "the last one with this"
            " folder ended (default: nothing is remembered)",
        )
        parser.add_argument(
            "--beam_joins_changed",
            choices=("refuse", "rebuild"),
            default="refuse",
            help="for a folder with the state of another pipeline: refuse it, or rebuild the transforms that have changed, and those"
            " behind them, from the rows that the tables upstream have stored (default: refuse)",
        )
        parser.add_argument(
            "--beam_joins_read_again",
            action="append",
            metavar="LABEL",
            help="the label of a TableFromChangelog whose whole changelog is read in this run: its state is forgotten, and all behind"
            " it is rebuilt; may be repeated, and is for one run",
        )
        parser.add_argument(
            "--beam_joins_remember_deletes",
            type=float,
            default=REMEMBER_DELETES,
            metavar="SECONDS",
            help="how much older than the latest event time of the runs before a delete may be, so that a late record "
            "does not bring back its row"
            f" (default: {REMEMBER_DELETES}, two days)",
        )
        parser.add_argument(
            pickles.OPTION,
            action="store_true",
            help="write values of types that have no other encoding with pickle, and read them, which runs whatever "
            "code they name: only where nobody else"
            " can write what is read, the folder of a state above all (default: such values are refused)",
        )


def take_note_of_pickles(pcoll: PCollection[Any]) -> None:
    """Accept pickles from now on if the options of a collection's pipeline say so."""
    if pcoll.pipeline.options.view_as(ReplayOptions).beam_joins_pickled_values:
        pickles.accept()


def has_one_turn(pcoll: PCollection[Any]) -> bool:
    """Whether all rows have their turn at once: the input is bounded, and no run or step was before or will be after."""
    return bool(pcoll.is_bounded) and folder_for(pcoll) is None and not is_in_steps(pcoll.pipeline)


def require_options(pipeline: Pipeline) -> None:
    """Raise ``ValueError`` for an option of a pipeline that begins as those of the engine, and is none of them: Beam ignores it."""
    if getattr(pipeline, _READ, False):
        return
    names = _names()
    for option in pipeline.options.get_all_options(retain_unknown_options=True):
        name = option.removeprefix(_PREFIX)
        if option.startswith(_PREFIX) and name not in names:
            meant = get_close_matches(name, names, 1)
            hint = f"do you mean --{_PREFIX}{meant[0]}?" if meant else f"choose among {', '.join(f'--{_PREFIX}{n}' for n in names)}"
            raise ValueError(f"there is no option --{option}: {hint}")
    setattr(pipeline, _READ, True)


@cache
def _names() -> list[str]:
    """The names of the engine's options without their beginning."""
    return [name.removeprefix(_PREFIX) for name in PipelineOptions([]).get_all_options() if name.startswith(_PREFIX)]


def folder_for(pcoll: PCollection[Any] | PBegin) -> StateFolder | None:
    """The folder for the state of the pipeline's runs; ``None`` without one."""
    require_options(pcoll.pipeline)
    options = pcoll.pipeline.options.view_as(ReplayOptions)
    folder = folder_of(pcoll.pipeline, options.beam_joins_state)
    if folder is not None:
        folder.plan.rebuilds, folder.plan.read_again = options.beam_joins_changed == "rebuild", options.beam_joins_read_again or ()
    return folder


def union_with_stored(pcoll: PCollection[Any], replay: str, name: str, kind: pa.DataType, column: str = "value") -> pa.DataType:
    """The type of a column of an input, of this type in this run, with the columns that a replay within the transform that is
    being applied has stored. Raises :class:`StateRefused`.
    """
    folder = folder_for(pcoll)
    return kind if folder is None else folder.union_type(f"{label_of(pcoll.pipeline)}/{replay}", name, column, kind)


def blocks_for(pcoll: PCollection[Any]) -> BlockFolder | None:
    """The folder for the blocks of a collection's pipeline; ``None`` where they travel as they are."""
    return block_folder(pcoll.pipeline, pcoll.pipeline.options.view_as(ReplayOptions).beam_joins_blocks)


def groups_blocks(pcoll: PCollection[Any]) -> bool:
    """Whether the blocks of partitions are grouped, and do not wait for a timer: the runner keeps no other state, or is the direct
    runner with several workers, which read blocks where they lie, and fires all timers in one of them.
    """
    if not has_several_workers(pcoll.pipeline):
        return abilities(pcoll.pipeline).keeps_groups
    _warn_of(pcoll.pipeline.options.view_as(DirectOptions).direct_running_mode)
    return blocks_for(pcoll) is not None


@cache
def _warn_of(running_mode: str) -> None:
    if running_mode in ("multi_processing", "multi_threading"):
        _log.warning(
            "--direct_running_mode=%s: Beam's runner may lose large elements between stages without a word: use"
            " --runner=beam_joins.LocalRunner",
            running_mode,
        )


def memory_for(pcoll: PCollection[Any]) -> int:
    """The bytes that the rows of a turn may take; raises ``ValueError`` for an option that is not positive."""
    megabytes: int = pcoll.pipeline.options.view_as(ReplayOptions).beam_joins_memory
    if megabytes < 1:
        raise InputError(f"--beam_joins_memory={megabytes}: give a positive number of megabytes, such as {MEMORY_MB}")
    return megabytes << 20
