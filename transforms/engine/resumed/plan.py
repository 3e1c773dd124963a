"""The plan of a run that goes on: the verdict on each transform while a pipeline is built, and what of the state stays."""

from collections.abc import Collection, Iterable, Mapping
from itertools import chain
from typing import Final

from beam_joins.errors import StateRefused
from beam_joins.transforms.engine.construction.pipeline_changes import Decision, Fingerprint, Rules, decided
from beam_joins.transforms.engine.resumed.manifest import READ_AGAIN, Manifest, Remembered, largest

_REBUILD: Final = "--beam_joins_changed=rebuild"


class Plan:
    """The verdicts on the transforms of a pipeline, by their full labels, where ``before`` is the state.

    ``rebuilds``: whether changed transforms may be rebuilt; ``read_again`` are the labels of transforms whose whole input
    is in this run, by an option, and ``whole`` those of transforms whose input is known to be whole.
    """

    def __init__(self, before: Manifest) -> None:
        self.before = before
        self.rebuilds = False
        self.read_again: Collection[str] = ()
        self.whole: Collection[str] = ()
        self.decisions: dict[str, Decision] = {}
        self.anew: dict[str, int] = {}
        """The positions at which the tables of rebuilt transforms begin anew."""

    def decide(self, label: str, fingerprint: Fingerprint, rules: Rules, upstream: Iterable[str] = ()) -> Decision:
        """The verdict on a transform, behind transforms that were decided on before."""
        before = self.before.transforms.get(label)
        above = [self.decisions[each] for each in dict.fromkeys(upstream) if each in self.decisions]
        if self.is_read_again(label):
            above = [each for each in above if each.verdict != "kept"]
            changed = tuple(each.label for each in above)
            decision = Decision(label, fingerprint, rules, "rebuilt", ("its input is read again",), changed)
        elif self._is_empty or (before is None and not self.before.has_all):
            decision = decided(label, fingerprint, fingerprint, rules, above)
        else:
            decision = decided(label, before, fingerprint, rules, above)
        self.decisions[label] = decision
        return decision

    def lacks_history(self, decision: Decision, source: str) -> None:
        """Take note of a transform that cannot be rebuilt, as the rows of a ``source`` upstream are not stored."""
        reason = f"{decision.why}, and what it gets of '{source}' is not stored"
        self.decisions[decision.label] = decision._replace(verdict="needs history", differences=(reason,))

    @property
    def _is_empty(self) -> bool:
        """Whether no run before has seen a row."""
        return not any(each.has_seen for each in self.before.stages.values())

    def _stages(self, label: str) -> dict[str, Remembered]:
        return {name: each for name, each in self.before.stages.items() if name.rpartition("/")[0] == label}

    def is_kept(self, stage: str) -> bool:
        """Whether the state of a stage goes on."""
        decision = self.decisions.get(stage.rpartition("/")[0])
        return decision is None or decision.verdict == "kept"

    def had(self, label: str) -> bool:
        """Whether the last run had a transform of this label."""
        return label in self.before.transforms

    def is_read_again(self, label: str) -> bool:
        """Whether a transform reads its whole input again."""
        return label in self.read_again or label in self.whole

    def may_begin(self, label: str) -> bool:
        """Whether a source that has all of its rows at any time is read from its beginning: by an option, or as its transform is
        new, which is noted as one whose input is whole.
        """
        if self.before.has_all and not (self._is_empty or self.had(label)):
            self.whole = [*self.whole, label]
        return self.is_read_again(label)

    def is_rebuilt(self, label: str) -> bool:
        """Whether a transform is rebuilt."""
        return label in self.decisions and self.decisions[label].verdict == "rebuilt"

    def frontier(self, label: str) -> int | None:
        """The frontier of a transform; of a new one the position at which its table begins anew, or else the frontier of those of its
        class whose positions are of the same kind: others cannot be compared.
        """
        stages = self._stages(label)
        if not stages and label in self.anew:
            return self.anew[label]
        alike = [label] if stages else [each for each in self.before.transforms if self._is_alike(each, label)]
        return largest(*(stage.frontier for each in alike for stage in self._stages(each).values()))

    def _is_alike(self, before: str, label: str) -> bool:
        """Whether a transform of the runs before has the class of one of this run, and both have a sequence or none."""
        one, other = self.before.transforms[before], self.decisions[label].fingerprint
        return one["transform"] == other["transform"] and ("sequence_by" in one["options"]) == ("sequence_by" in other["options"])

    def stays(self) -> Mapping[str, Remembered]:
        """The states of stages that go on."""
        return {stage: each for stage, each in self.before.stages.items() if self.is_kept(stage)}

    def require(self, root: str, stages: Iterable[str]) -> None:
        """Raise :class:`StateRefused`, with a sentence for each changed transform, if the pipeline may not go on; ``stages``
        are all stages of it.
        """
        if absent := sorted({*self.read_again} - self.decisions.keys()):
            labels = ", ".join(map(repr, sorted(self.decisions)))
            raise StateRefused(f"--beam_joins_read_again={absent[0]}: the pipeline has no transform of that label, but {labels}")
        if tables := [label for label in self.read_again if not self.decisions[label].rules.of_records]:
            labels = ", ".join(repr(label) for label, each in sorted(self.decisions.items()) if each.rules.of_records)
            raise StateRefused(
                f"--beam_joins_read_again={tables[0]}: name a transform that reads records, {labels or 'but there is none'}: those"
                " behind it are rebuilt"
            )
        for label in sorted({*self.read_again, *self.whole}):
            if (of_run := self._gives_new_rows_only(label)) is not None:
                raise StateRefused(
                    f"--beam_joins_read_again={label}: it is behind {of_run}, which gives the rows of this run alone: begin with an "
                    "empty folder"
                )
        if again := sorted({*self.read_again} & {*self.before.read_again}):
            raise StateRefused(
                f"--beam_joins_read_again={again[0]}: the run before has read it again: leave the option out, as its state would be"
                " that of this run's input alone"
            )
        changed = [each for each in self.decisions.values() if each.verdict != "kept"]
        refused = [each for each in changed if each.verdict == "needs history" or not self._may_be_rebuilt(each)]
        behind = [each.label for each in refused if each.verdict == "rebuilt" and not each.differences]
        sentences = [self._sentence(each) for each in refused if each.label not in behind]
        sentences += [f"behind it {', '.join(behind)}: with {_REBUILD} made anew, too"] if behind else []
        gone = sorted(label for label in self.before.transforms.keys() - self.decisions.keys() if self._has_rows(label))
        sentences += [] if self.rebuilds else [f"{label} is gone: with {_REBUILD} its state is forgotten" for label in gone]
        if sentences:
            raise StateRefused("\n  ".join([f"{root} has the state of another pipeline:", *sentences]))
        for stage in filter(self.is_kept, stages):
            label = stage.rpartition("/")[0]
            if not self.before.has_all and not self._is_empty and label in self.decisions.keys() - self.before.transforms.keys():
                raise StateRefused(
                    f"{root} is of an earlier version, and {label} is new: run the pipeline of before once more, then this one with"
                    f" {_REBUILD}"
                )
            if self._stages(label) and stage not in self.before.stages:
                raise StateRefused(
                    f"{root} has no state of '{stage}', as its input came in another form before: begin with an empty folder"
                )

    def _gives_new_rows_only(self, label: str) -> str | None:
        """The label of a transform upstream that does not give all of its rows in this run, ``None`` if there is none."""
        for above in map(self.decisions.__getitem__, chain(*self.decisions[label].fingerprint["upstream"])):
            if above.rules.of_run or (above.verdict == "kept" and self._has_rows(above.label)):
                return above.label
            if (further := self._gives_new_rows_only(above.label)) is not None:
                return further
        return None

    def _may_be_rebuilt(self, decision: Decision) -> bool:
        """Whether the options say so, or only that a source upstream is read again."""
        if self.rebuilds or self.is_read_again(decision.label):
            return True
        return not decision.differences and all(self._may_be_rebuilt(self.decisions[label]) for label in decision.upstream)

    def _has_rows(self, label: str) -> bool:
        return any(each.has_seen for each in self._stages(label).values())

    def _sentence(self, decision: Decision) -> str:
        what = f"{decision.label} ({decision.fingerprint['transform']}): {decision.why}"
        if decision.verdict == "rebuilt":
            return f"{what}: with {_REBUILD} it is made anew from stored rows"
        if decision.rules.of_records and decision.differences:
            return f"{what}: {READ_AGAIN.format(decision.label)}"
        return f"{what}: begin with an empty folder" if decision.differences else f"{what}, which needs its history"
