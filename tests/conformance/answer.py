"""An answer to a scenario, ours or a recorded one, and the recorded format."""

from collections.abc import Iterable, Mapping, Sequence
from typing import Any, NamedTuple

from tests.conformance.scenario import Scenario, step


class Out(NamedTuple):
    """A record that came out; ``ts`` is in milliseconds."""

    key: str | None
    value: str | None
    ts: int


class Pair(NamedTuple):
    """A change of the result table that came out, with its old value."""

    key: str
    old: str | None
    new: str | None
    ts: int
    latest: bool = True


class Answer(NamedTuple):
    """What came out at each input, the changes behind it where they are known, and the result table in the
    end where there is one.

    ``final_ts`` are the times of that table's rows, where they are recorded. ``raw`` is what came out on a
    raw changelog: as Kafka without old values, with the tombstones of rows that have no previous result.
    """

    name: str
    outs: list[list[Out]]
    pairs: list[list[Pair]] | None
    final_table: dict[str, str] | None
    raw: list[list[Out]] | None = None
    final_ts: dict[str, int] | None = None

    @classmethod
    def recorded(cls, document: dict[str, Any]) -> "Answer":
        """The answer that a line of the format holds."""
        outs = [in_steps_order(Out(o["key"], o["value"], o["ts"]) for o in s["out"]) for s in document["steps"]]
        pairs = None
        if all("changes" in s for s in document["steps"]):
            pairs = [
                sorted((Pair(c["key"], c["old"], c["new"], c["ts"], c.get("latest", True)) for c in s["changes"]), key=_order)
                for s in document["steps"]
            ]
        return cls(document["name"], outs, pairs, document.get("final_table"), final_ts=document.get("final_ts"))

    def document(self) -> dict[str, Any]:
        """The answer in the recorded format."""
        steps: list[dict[str, Any]] = [{"i": i, "out": [o._asdict() for o in outs]} for i, outs in enumerate(self.outs)]
        for i, pairs in enumerate(self.pairs or []):
            steps[i]["changes"] = [{"key": p.key, "old": p.old, "new": p.new, "ts": p.ts} for p in pairs]
        return {"name": self.name, "steps": steps, "final_table": self.final_table}


class Run(NamedTuple):
    """What an operator gave for one scenario.

    ``outs`` are of (position, key, value, microseconds); if missing, the new values of ``changes``, which are
    of (position, key, old, new, microseconds). ``rows`` are the result table in the end; if missing, what the
    outs add up to. ``raw`` is like ``outs``, from a raw changelog.
    """

    outs: Sequence[tuple[int, str, str | None, int]] | None = None
    changes: Sequence[tuple[int, str, str | None, str | None, int]] | None = None
    rows: Mapping[str, str] | None = None
    raw: Sequence[tuple[int, str, str | None, int]] | None = None

    def answer(self, scenario: Scenario) -> Answer:
        """The same in steps."""
        outs = self.outs if self.outs is not None else [(p, key, new, micros) for p, key, _, new, micros in self.changes or ()]
        folded: dict[str, str] = {}
        for _, key, value, _ in sorted(outs, key=lambda out: out[:2]):
            if value is None:
                folded.pop(key, None)
            elif key is not None:  # a stream's result may have no key; a table's row has one
                folded[key] = value
        return Answer(
            scenario.name,
            _in_steps(scenario, Out, outs),
            None if self.changes is None else _in_steps(scenario, Pair, self.changes),
            dict(sorted((folded if self.rows is None else self.rows).items())),
            None if self.raw is None else _in_steps(scenario, Out, self.raw),
        )


def _in_steps(scenario: Scenario, kind: Any, items: Iterable[tuple[Any, ...]]) -> list[list[Any]]:
    steps: list[list[Any]] = [[] for _ in scenario.inputs]
    for position, *fields, micros in items:
        steps[step(position)].append(kind(*fields, milliseconds(micros)))
    return [sorted(outs, key=_order) for outs in steps]


def milliseconds(micros: int) -> int:
    """Whole milliseconds; raises ``ValueError`` if they are not, for every time comes from an input's."""
    whole, rest = divmod(micros, 1000)
    if rest:
        raise ValueError(f"a result at {micros} microseconds has the time of no input")
    return whole


def in_steps_order(outs: Iterable[Out]) -> list[Out]:
    """The records of one step in the order in which answers have them."""
    return sorted(outs, key=_order)


def _order(record: tuple[Any, ...]) -> tuple[Any, ...]:
    # One input may cause several records; a pipeline's outputs have no order among them, so both answers are
    # put into the same.
    return tuple(("" if field is None else str(field)) for field in record)
