"""The manifest of a folder: the state of every transform after the last run that ended well, and the
conditions for another run to go on with it.
"""

import json
import re
from ast import literal_eval
from base64 import b64decode, b64encode
from collections.abc import Iterable, Mapping, Sequence
from typing import Any, Final, NamedTuple

import pyarrow as pa
from xxhash import xxh3_64_hexdigest

from beam_joins.coders.snapshot import Described, files_of
from beam_joins.errors import CorruptData, StateRefused
from beam_joins.transforms.engine.blocks.log_spans import in_earlier_runs
from beam_joins.transforms.engine.construction.pipeline_changes import Fingerprint
from beam_joins.values.schema_evolution import narrowing, union_type

MANIFEST, JOURNAL = "manifest.json", "commit.json"
"""The names of the files of a folder that say its state, and that a commit is under way."""
FORMAT = 9
READ_AGAIN: Final = "give its whole input in this run with --beam_joins_read_again={}, or begin with an empty folder"
"""The remedy for a source whose stored rows do not do, with its label."""
_REFERENCE, IN_BRACKETS = "reference", "(reference)"
"""The column of a command's rows with the key of a right row, as the first versions with format 5 named it, and now."""
_KEYS: Final = ("key", "reference", "group")
STORED_OR_NOT: Final = ("value", *_KEYS)
"""The columns that rows of a stage may have without their being stored."""
DescribedPart = tuple[int, Described | None]
"""A part of a partition's state: the place up to which its rows lie, and its snapshot."""


class Remembered(NamedTuple):
    """The state of a stage of a transform after a run.

    * ``frontier`` and ``latest``: the largest position and event time, of all transforms connected with it.
    * ``forgotten``: the largest position of a delete that it does not remember any more.
    * ``columns``: the schemas of its inputs; ``notes``: the notes on them.
    * ``partitions``: the parts of their states.
    """

    frontier: int | None = None
    latest: int | None = None
    forgotten: int | None = None
    columns: Mapping[str, str] = {}
    notes: Mapping[str, list[str]] = {}
    partitions: Mapping[str, Sequence[DescribedPart]] = {}

    @property
    def has_seen(self) -> bool:
        """Whether there were any rows."""
        return bool(self.columns or self.notes or self.partitions)

    @property
    def described(self) -> list[Described]:
        """All files of their states."""
        return [file for parts in self.partitions.values() for _, described in parts for file in files_of(described)]


class Manifest(NamedTuple):
    """The contents of a manifest: ``run`` is the number of the last run, ``inputs`` the progress of readers;
    ``stages`` are the states, and ``transforms`` the properties of the transforms that have them, by full labels;
    ``read_again`` are the transforms whose whole input that run has read again, and ``has_all`` says that transforms
    without state are among them too. ``kept`` are the tables that readers keep, by names of their choice.
    """

    run: int = 0
    partitions: int | None = None
    inputs: Mapping[str, Any] = {}
    stages: Mapping[str, Remembered] = {}
    transforms: Mapping[str, Fingerprint] = {}
    read_again: Sequence[str] = ()
    has_all: bool = True
    kept: Mapping[str, Described] = {}

    @property
    def files(self) -> set[str]:
        """The names of all files that it names."""
        return {file["file"] for file in self.described}

    @property
    def described(self) -> list[Described]:
        """All files that it names."""
        return [*(file for each in self.stages.values() for file in each.described), *self.kept.values()]


class TurnEnded(NamedTuple):
    """The record that a partition writes after its turn, with its largest position and timestamp, the largest
    position of a delete that it has forgotten, and the schemas of its inputs.
    """

    label: str
    partition: int
    parts: Sequence[DescribedPart]
    position: int | None
    timestamp: int | None
    forgotten: int | None
    columns: dict[str, str]
    notes: dict[str, list[str]]


def write_manifest(manifest: Manifest) -> str:
    """The manifest as text with a checksum.

    >>> read_manifest(write_manifest(Manifest(run=7)), "manifest.json").run
    7
    """
    content = {
        **manifest._asdict(),
        "format": FORMAT,
        "stages": {label: each._asdict() for label, each in manifest.stages.items()},
    }
    return json.dumps({**content, "xxh3": _checksum(content)}, indent=1)


def read_manifest(text: str, name: str) -> Manifest:
    """The manifest of its text; raises :class:`CorruptData`, and :class:`StateRefused` for one of another
    version.
    """
    try:
        content = json.loads(text)
        checksum, version = content.pop("xxh3"), content.pop("format")
        if version not in range(min(_STEPS), FORMAT + 1):
            remedy = "update beam_joins" if version > FORMAT else "begin with an empty folder"
            raise StateRefused(f"{name} has format {version}, and this version reads formats up to {FORMAT}: {remedy}")
        if checksum != _checksum({**content, "format": version}):
            raise CorruptData(f"{name} has changed since it was written: its checksum is another")
        for step in range(version, FORMAT):
            content = _STEPS[step](content)
        stages = {label: Remembered(**each) for label, each in content.pop("stages").items()}
        return Manifest(**content, stages=stages)
    except (StateRefused, CorruptData):
        raise
    except (ValueError, TypeError, KeyError, AttributeError, RecursionError) as error:
        raise CorruptData(f"{name} is not a manifest: {error}") from error


def _from_5(content: dict[str, Any]) -> dict[str, Any]:
    """Format 6 has the properties of all transforms beside the states of stages, whose labels are one level deeper. The first
    versions with format 5 named the columns of commands without brackets.
    """
    stages = content.pop("transforms")
    transforms = {label.rpartition("/")[0]: each.pop("fingerprint") for label, each in stages.items()}
    is_of_command = any(name.endswith(" command") for name in content["inputs"])
    if is_of_command and any("'place'" in each["options"].get("except_columns", "") for each in transforms.values()):
        for each in transforms.values():
            each["options"] = {option: _in_brackets(value) for option, value in each["options"].items()}
        for each in stages.values():
            each["columns"] = {name: _with_reference(text) for name, text in each["columns"].items()}
    return {**content, "stages": stages, "transforms": transforms, "has_all": False}


def _from_6(content: dict[str, Any]) -> dict[str, Any]:
    """Format 7 has the last delete that was forgotten: before, any that a run had processed can have been."""
    stages = {label: {**each, "forgotten": each["frontier"]} for label, each in content["stages"].items()}
    return {**content, "stages": stages}


def _from_7(content: dict[str, Any]) -> dict[str, Any]:
    """Format 8 has the names that functions of this library are given: before, it had those of the source, and their arguments."""
    is_of_command = any(name.endswith(" command") for name in content["inputs"])
    transforms = {}
    for label, each in content["transforms"].items():
        names = _OF_COMMANDS if is_of_command else {}
        if "'(place)'" in each["options"].get("except_columns", ""):
            names = {**names, **_OF_READERS}
        transforms[label] = _with_names(each, names)
    return {**content, "transforms": transforms}


def _from_8(content: dict[str, Any]) -> dict[str, Any]:
    """Format 9 has the tables that readers keep."""
    return {**content, "kept": {}}


def _with_names(fingerprint: dict[str, Any], names: Mapping[str, Mapping[str, str]]) -> dict[str, Any]:
    """A fingerprint with the names of functions; those that count by their names alone have no versions."""
    named = dict(fingerprint["options"])
    for option, texts in names.items():
        for text, name in texts.items():
            if found := re.fullmatch(text, str(named.get(option))):
                named[option] = found.expand(name)
    alone = {option for option, name in named.items() if name != fingerprint["options"][option] and name not in _VERSIONED}
    after = {**fingerprint, "options": named}
    for form in {"values", "functions"}.intersection(fingerprint):
        after[form] = {option: version for option, version in fingerprint[form].items() if option not in alone}
    return after


_OF_READERS: Final = {
    "key": {r"(?:vectorized\()?partial\(_nested_\w+, (\[\[.*\]\])\)+": r"keys at \1"},
    "unchanged_by": {r"(vectorized\()?(partial\()?(_left_out|_lists_left_out)\b.*": "columns left out"},
    "completed_by": {r"partial\(_?completed, Reading\(.*": "completed rows"},
    "tie_break_by": {r"vectorized\((partial\()?_ties.*": "(place)"},
    "apply_as_inserts": {r"(vectorized\()?(_lives|_life)\)?": "inserts"},
    "apply_as_truncates": {r"vectorized\(_empties\)": "truncates"},
}
"""The names of functions of readers, by option and pattern of the texts that formats up to 7 had."""
_OF_COMMANDS: Final = {
    "joiner": {r"vectorized\(joiner_of\.<locals>\.join\)": "joined columns"},
    "predicate": {r"vectorized\(partial\(AtLeast\.passes, .*": "at least"},
    "fn": {
        r"vectorized\(_without\)": "without reference",
        r"vectorized\((_selected|_whole_rows)\.<locals>\.\w+\)": "selected columns",
    },
}
"""Those of functions of commands."""
_VERSIONED: Final = ("joined columns", "at least", "selected columns")
"""The names of functions that have versions, too."""
_NOW: Final = {
    **{name: f"({name})" for name in ("key", "time", "deleted", "place", "log", _REFERENCE)},
    **{"sequence_0": "(position)", "sequence_1": "(order)", "left_out": "(left out)", "arrives": "(life)"},
}
"""The names of such columns then and now."""


def _in_brackets(option: Any) -> Any:
    """The value of an option of a command's transform with the columns as they are named now.

    >>> _in_brackets("['key', 'sequence_0', 'sequence_1', 'sequence_2']"), _in_brackets("left")
    ("['(key)', '(position)', '(order)', '(order 2)']", 'left')
    """
    if not isinstance(option, str):
        return option
    if option.startswith("["):
        return str([_in_brackets(each) for each in literal_eval(option)])
    return re.sub("^sequence_([0-9]+)$", r"(order \1)", _NOW.get(option, option))


def _with_reference(text: str) -> str:
    schema = text_schema(text)
    at = schema.get_field_index("value")
    return text if at < 0 else schema_text(schema.set(at, schema.field(at).with_type(now_named(schema.field(at).type))))


def now_named(kind: pa.DataType) -> pa.DataType:
    """The type of the values of a state with the names that their columns have now."""
    if not pa.types.is_struct(kind) or kind.get_field_index(_REFERENCE) < 0:
        return kind
    return pa.struct([field.with_name(IN_BRACKETS) if field.name == _REFERENCE else field for field in kind])


_STEPS: Final = {5: _from_5, 6: _from_6, 7: _from_7, 8: _from_8}
"""The step from each earlier format to the next one."""


def write_journal(manifest: str, moves: Iterable[tuple[str, str]]) -> str:
    """The journal of a commit, with a checksum: the manifest that it writes, and the files that it renames.

    >>> read_journal(write_journal("{}", [("a.part", "a")]), "commit.json")
    ('{}', [('a.part', 'a')])
    """
    content = {"manifest": manifest, "moves": list(map(list, moves))}
    return json.dumps({**content, "xxh3": _checksum(content)})


def read_journal(text: str, name: str) -> tuple[str, list[tuple[str, str]]]:
    """The manifest and the renames of the text; raises :class:`CorruptData`."""
    try:
        content = json.loads(text)
        if content.pop("xxh3") != _checksum(content):
            raise CorruptData(f"{name} has changed since it was written: its checksum is another")
        return content["manifest"], [(source, target) for source, target in content["moves"]]
    except CorruptData:
        raise
    except (ValueError, TypeError, KeyError, AttributeError, RecursionError) as error:
        raise CorruptData(f"{name} does not say what is to be committed: {error}") from error


def widened(label: str, text: str, types: pa.Schema | None) -> str:
    """A stored schema, as text, with the types of this run, and without values that are not stored, or any such columns where no
    row is; raises :class:`StateRefused` for values of a type that does not hold the stored ones.
    """
    schema = text_schema(text)
    for name in schema.names:
        at, kind = schema.get_field_index(name), None if types is None or name not in types.names else types.field(name).type
        if kind is None:
            schema = schema.remove(at) if name == "value" or (types is None and name in STORED_OR_NOT) else schema
        elif (fault := narrowing(schema.field(at).type, kind)) is None:
            schema = schema.set(at, schema.field(at).with_type(kind))
        elif name not in _KEYS:  # keys of other types may be equal: their rows tell
            of, before, now = fault
            column = f"the column '{of}'" if of else "the value"
            change = (
                "is gone" if now is None else f"was {before} in the runs before and is {now}, which does not hold all of its values"
            )
            remedy = READ_AGAIN.format(label.rpartition("/")[0])
            raise StateRefused(f"{label}: {column} {change}: give the same columns, or {remedy}")
    return schema_text(schema)


def after_run(stages: Mapping[str, Remembered], turns: Iterable[TurnEnded], groups: Iterable[set[str]]) -> dict[str, Remembered]:
    """The states of stages, by full label, after a run in which some partitions had a turn; ``groups`` are the labels
    that have one frontier.
    """
    by_label: dict[str, list[TurnEnded]] = {label: [] for label in stages}
    for turn in turns:
        by_label[turn.label].append(turn)
    after = {label: _after(each, by_label[label]) for label, each in stages.items()}
    for group in groups:
        ended = [turn for label in group for turn in by_label[label]]
        frontier = largest(*(stages[label].frontier for label in group), *(turn.position for turn in ended))
        latest = largest(*(stages[label].latest for label in group), *(turn.timestamp for turn in ended))
        for label in group:
            after[label] = after[label]._replace(frontier=frontier, latest=latest)
    return after


def _after(before: Remembered, turns: Iterable[TurnEnded]) -> Remembered:
    partitions, columns = dict(before.partitions), dict(before.columns)
    notes = {name: set(noted) for name, noted in before.notes.items()}
    for turn in turns:
        if any(described is not None for _, described in turn.parts):
            partitions[str(turn.partition)] = turn.parts
        columns = common_columns(turn.label, columns, turn.columns)
        for name, noted in turn.notes.items():
            notes.setdefault(name, set()).update(noted)
    listed = {name: sorted(in_earlier_runs(noted)) for name, noted in notes.items()}
    forgotten = largest(before.forgotten, *(turn.forgotten for turn in turns))
    return before._replace(forgotten=forgotten, partitions=partitions, columns=columns, notes=listed)


def with_stored(label: str, stored: str, name: str, kind: pa.DataType) -> pa.DataType:
    """The type that holds the values of a column of a stored schema, as text, and those of this run, of type ``kind``; raises
    :class:`StateRefused` where there is none.
    """
    try:
        return union_type(text_schema(stored).field(name).type, kind)
    except ValueError as error:
        raise StateRefused(f"{label}: {error}: give the type of before, or {READ_AGAIN.format(label.rpartition('/')[0])}") from None


def schema_text(schema: pa.Schema) -> str:
    """A schema as text.

    >>> text_schema(schema_text(pa.schema({"key": pa.int64()}))).names
    ['key']
    """
    return b64encode(schema.remove_metadata().serialize()).decode()


def text_schema(text: str) -> pa.Schema:
    """The schema of its text."""
    return pa.ipc.read_schema(pa.py_buffer(b64decode(text)))


def common_columns(label: str, one: Mapping[str, str], other: Mapping[str, str]) -> dict[str, str]:
    """The common schemas of inputs, as texts, from two; raises :class:`StateRefused` for schemas that have
    nothing in common.
    """
    return {**one, **{name: _common(label, name, one[name], schema) if name in one else schema for name, schema in other.items()}}


def _common(label: str, name: str, one: str, other: str) -> str:
    if one == other:
        return one
    schemas = [text_schema(one), text_schema(other)]
    try:
        return schema_text(pa.unify_schemas(schemas, promote_options="default"))
    except (pa.ArrowInvalid, pa.ArrowTypeError) as error:
        raise StateRefused(f"{label}: the columns of '{name}' differ from one partition to another: {error}") from None


def largest(*numbers: int | None) -> int | None:
    """The largest of the numbers that are not ``None``; ``None`` without any."""
    return max((each for each in numbers if each is not None), default=None)


def _checksum(content: dict[str, Any]) -> str:
    return str(xxh3_64_hexdigest(json.dumps(content, sort_keys=True).encode()))
