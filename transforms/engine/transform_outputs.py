"""The outputs of a transform: the main one, the records that it cannot use with their reasons, and the
records for which a user's function raises.
"""

import copy
from collections.abc import Callable
from typing import Any, Generic, TypeVar, cast

import apache_beam as beam
from apache_beam.pvalue import PCollection

from beam_joins.functions.column_expressions import EXPRESSIONS
from beam_joins.functions.marked_functions import vectorized
from beam_joins.functions.user_functions import ExceptionClass
from beam_joins.transforms.engine.blocks.block_writer import BAD, DROPPED, MAIN
from beam_joins.transforms.engine.construction.fingerprints import label_of
from beam_joins.transforms.engine.construction.output_types import Handled, HandledTableOutputs, Table, TableOutputs
from beam_joins.transforms.engine.stages.stage_functions import StageFunctions
from beam_joins.transforms.engine.transform import In, Out, Transform
from beam_joins.transforms.engine.untaken_drops import tell_drops


class Handling:
    """The handling of exceptions in the functions of one application of a transform; ``tags`` are the outputs
    that a stage needs for it.
    """

    def __init__(self, label: str, exc_class: ExceptionClass | None) -> None:
        self.functions = StageFunctions(label, exc_class)
        self.tags = () if exc_class is None else (BAD,)
        self._bad: list[PCollection[Any]] = []

    def apply(self, label: str, run: Any, pcoll: PCollection[Any]) -> PCollection[Any]:
        """The main output of a ``ParDo`` that gives the elements of :meth:`StageFunctions.take` too."""
        if not self.tags:
            plain: PCollection[Any] = pcoll | label >> run
            return plain
        outputs = pcoll | label >> run.with_outputs(BAD, main=MAIN)
        self._bad.append(outputs[BAD])
        main: PCollection[Any] = outputs[MAIN]
        return main

    def collect(self, *stages: dict[str, PCollection[Any]]) -> None:
        """Take note of the bad records of stages."""
        self._bad += [stage[BAD] for stage in stages if BAD in stage]

    def bad(self) -> PCollection[Any] | None:
        """The bad records of all stages; ``None`` if exceptions are not handled."""
        if not self.tags:
            return None
        return tuple(self._bad) | "Bad" >> beam.Flatten() if len(self._bad) > 1 else self._bad[0]


OutAndBad = TypeVar("OutAndBad")
All = TypeVar("All")
AllAndBad = TypeVar("AllAndBad")


class HandlesExceptions(Transform[In, Out], Generic[In, Out, OutAndBad]):
    """A transform that calls functions of users, and fails when one raises; or with
    :meth:`with_exception_handling` goes on.

    It takes ``In`` and gives ``Out``, or goes on and gives ``OutAndBad``.
    """

    _exc_class: ExceptionClass | None = None
    handling: Handling

    def with_exception_handling(self, *, exc_class: ExceptionClass = Exception) -> Transform[In, OutAndBad]:
        """The same transform, giving ``(good, bad)``: its main output, and the records for which a function
        raised.

        An element of ``bad`` is ``(record, (class name, message, traceback lines))``, as in Beam's dead
        letters. With :meth:`with_outputs` ``bad`` is the last field. ``exc_class`` is an exception class or a
        tuple of them; other exceptions fail the run. ``docs/functions.md`` lists the effects.

        Raises ``ValueError`` for anything else, and for a transform with a vectorized function, which gets
        many records at once.
        """
        classes = exc_class if isinstance(exc_class, tuple) else (exc_class,)
        if not classes or not all(isinstance(each, type) and issubclass(each, Exception) for each in classes):
            raise ValueError(f"exc_class={exc_class!r}: give a subclass of Exception, or a tuple of them")
        for option in self._options.values():
            if isinstance(option, (vectorized, *EXPRESSIONS)):
                raise ValueError(
                    f"{type(self).__name__} has a vectorized function, which gets many records at once, so that none of "
                    "them can be told"
                    " from the others when it raises: give a function of one record, or leave with_exception_handling() out"
                )
        handled = copy.copy(self)
        handled._exc_class = exc_class
        return cast("Transform[In, OutAndBad]", handled)

    def outputs_of(self, pvalue: Any) -> Any:
        """The outputs for the inputs."""
        applied = copy.copy(self)
        pcoll = _first(pvalue)
        applied.handling = Handling(type(self).__name__ if pcoll is None else label_of(pcoll.pipeline), self._exc_class)
        return self._with_bad(applied.build(pvalue), applied.handling.bad())

    def _with_bad(self, built: Any, bad: PCollection[Any] | None) -> Any:
        return built if bad is None else Handled(built, bad)

    def build(self, pvalue: Any) -> Any:
        """The main output; or all outputs, of a transform with several."""
        raise NotImplementedError


class WithOutputs(HandlesExceptions[In, Out, Handled[Out]], Generic[In, Out, All, AllAndBad]):
    """A transform that gives its main output ``Out``, or with :meth:`with_outputs` all, ``All`` or, if it
    handles exceptions, ``AllAndBad``.

    ``build`` returns them in the order of the fields of ``outputs``, which are these two classes.
    """

    outputs: tuple[Callable[..., All], Callable[..., AllAndBad]]
    _all_outputs = False

    def with_exception_handling(
        self, *, exc_class: ExceptionClass = Exception
    ) -> "WithOutputs[In, Handled[Out], AllAndBad, AllAndBad]":
        """The same transform, giving a :class:`~beam_joins.outputs.Handled`; with :meth:`with_outputs` the named
        tuple of all outputs and ``bad``.
        """
        handled = super().with_exception_handling(exc_class=exc_class)
        return cast("WithOutputs[In, Handled[Out], AllAndBad, AllAndBad]", handled)

    def with_outputs(self) -> HandlesExceptions[In, All, AllAndBad]:
        """The same transform, giving a named tuple of all its outputs, ``dropped`` (a
        ``PCollection[Dropped]``) among them.

        Dropped records are counted in any case, as ``dropped_<reason>`` in the namespace ``beam_joins``.
        """
        all_outputs = copy.copy(self)
        all_outputs._all_outputs = True
        return cast("HandlesExceptions[In, All, AllAndBad]", all_outputs)

    def outputs_of(self, pvalue: Any) -> Any:
        """The outputs for the inputs."""
        if (pcoll := _first(pvalue)) is not None:
            tell_drops(pcoll.pipeline, label_of(pcoll.pipeline), are_taken=self._all_outputs)
        return super().outputs_of(pvalue)

    def _with_bad(self, built: Any, bad: PCollection[Any] | None) -> Any:
        if not self._all_outputs:
            return super()._with_bad(built[0], bad)
        outputs, outputs_and_bad = self.outputs
        return outputs(*built) if bad is None else outputs_and_bad(*built, bad)

    @property
    def dropping(self) -> tuple[str, ...]:
        """The output of dropped records, which is created only on request."""
        return (DROPPED,) if self._all_outputs else ()

    def all_dropped(self, *stages: dict[str, PCollection[Any]]) -> PCollection[Any] | None:
        """The dropped records of several stages, if they were asked for."""
        if not self._all_outputs:
            return None
        dropped = tuple(stage[DROPPED] for stage in stages)
        return dropped | "Dropped" >> beam.Flatten() if len(dropped) > 1 else dropped[0]


class MakesTable(WithOutputs[In, Table, TableOutputs, HandledTableOutputs]):
    """A transform that gives a table, or with :meth:`with_outputs` also the records that it cannot use."""

    outputs = (TableOutputs, HandledTableOutputs)


def _first(pvalue: Any) -> PCollection[Any] | None:
    """The first collection that a transform is applied to."""
    inputs = list(pvalue.values()) if isinstance(pvalue, dict) else pvalue
    pcoll = inputs[0] if isinstance(inputs, tuple | list) and inputs else inputs
    return pcoll if isinstance(pcoll, PCollection) else None
