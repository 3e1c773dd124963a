"""The rule for a pipeline that differs from the one of the runs before: each transform is kept, rebuilt, or needs history."""

import re
from collections.abc import Iterator, Mapping, Sequence
from typing import Any, Final, Literal, NamedTuple, TypedDict, get_args

from beam_joins.transforms.engine.construction.table_type import Order

Verdict = Literal["kept", "rebuilt", "needs history"]
"""The verdict on a transform.

* ``"kept"``: its state goes on.
* ``"rebuilt"``: its state is made anew, of the rows that the tables upstream have stored and of this run's changes.
* ``"needs history"``: its state cannot be made of stored rows.
"""


class Fingerprint(TypedDict, total=False):
    """The properties of a transform as a manifest has them.

    ``transform`` is its class; ``options`` are as display data shows them; ``values`` are the versions of those of which that
    does not show all; ``functions`` are what earlier versions wrote in their place; ``inputs`` have the columns of each input,
    and ``upstream`` the labels of the transforms that made it. ``reader`` are the options of the reader that it is a part of.
    """

    transform: str
    options: dict[str, Any]
    values: dict[str, str]
    functions: dict[str, str]
    reader: dict[str, Any]
    inputs: list[dict[str, str]]
    upstream: list[list[str]]


class Rules(NamedTuple):
    """The verdicts on a transform that differs in something.

    * ``otherwise``: on other properties than those below.
    * ``options``: on another value of an option, by its name.
    * ``behind``: on one behind a transform that is rebuilt.
    * ``new``: on a transform that the runs before had not.
    """

    otherwise: Verdict
    options: Mapping[str, Verdict] = {}
    behind: Verdict = "rebuilt"
    new: Verdict = "rebuilt"

    @property
    def of_records(self) -> bool:
        """Whether the transform reads records that are not stored, so that it may read its whole input again."""
        return self.new == "needs history"

    @property
    def of_run(self) -> bool:
        """Whether the transform gives the records of a run alone, with rows of a table that is stored."""
        return self.otherwise == "needs history" and not self.of_records

    def of_option(self, name: str) -> Verdict:
        """The verdict on another value of an option."""
        return self.options.get(name, self.otherwise)


OF_TABLES: Final = Rules("rebuilt")
"""A transform of tables, which their stored rows are enough to rebuild."""
OF_RECORDS: Final = Rules("needs history", behind="needs history", new="needs history")
"""A transform of records that are not stored."""


class Decision(NamedTuple):
    """The verdict on a transform, and the differences that led to it, in words; ``upstream`` has the labels of the changed
    transforms in front of it.
    """

    label: str
    fingerprint: Fingerprint
    rules: Rules
    verdict: Verdict
    differences: tuple[str, ...] = ()
    upstream: tuple[str, ...] = ()

    @property
    def why(self) -> str:
        """The differences, or else the transforms upstream that led to the verdict."""
        return ", ".join(self.differences) or f"it is behind {' and '.join(self.upstream)}"


def decided(label: str, before: Fingerprint | None, now: Fingerprint, rules: Rules, upstream: Sequence[Decision] = ()) -> Decision:
    """The verdict on a transform whose fingerprint was ``before``, ``None`` for a new one, behind the transforms ``upstream``.

    >>> counted = {"transform": "CountTable", "options": {"group_by": "city"}, "inputs": []}
    >>> decision = decided("counts", counted, {**counted, "options": {"group_by": "by"}}, OF_TABLES)
    >>> decision.verdict, decision.why
    ('rebuilt', "group_by was 'city' and is 'by'")
    """
    changed = [each for each in upstream if each.verdict != "kept"]
    differences: list[tuple[str, Verdict]] = [("it is new", rules.new)]
    if before is not None:
        differences = [*_of_options(before, now, rules), *([] if changed else _of_inputs(before, now, rules))]
    verdicts = {verdict for _, verdict in differences}
    verdicts |= {"needs history" if each.verdict == "needs history" else rules.behind for each in changed}
    verdict: Verdict = next((each for each in _WORST_FIRST if each in verdicts), "kept")
    texts = tuple(text for text, of_text in differences if of_text != "kept")
    return Decision(label, now, rules, verdict, texts, tuple(each.label for each in changed))


def _of_options(before: Fingerprint, now: Fingerprint, rules: Rules) -> Iterator[tuple[str, Verdict]]:
    """The differences between the class and the options of two transforms in words, each with its verdict. Of a function its
    version counts, not its name. Versions that an earlier version of the package did not write are not compared.
    """
    if before["transform"] != now["transform"]:
        yield f"it was a {before['transform']} and is a {now['transform']}", rules.otherwise
        return
    reader, reader_after = before.get("reader", {}), now.get("reader", {})
    for name in sorted(reader.keys() & reader_after.keys()):
        if (was := reader[name]) != (is_now := reader_after[name]):
            yield f"{name} of its reader was {was!r} and is {is_now!r}", rules.otherwise
    options, after = before["options"], now["options"]
    versions, versions_after = _versions(before, now)
    for name in sorted({*options, *after}):
        was, is_now = options.get(name), after.get(name)
        is_other = versions.get(name) != versions_after.get(name)
        if was != is_now and (is_other or name not in versions or not (_is_name(was) and _is_name(is_now))):
            yield f"{name} was {{}} and is {{}}".format(*_parts_that_differ(repr(was), repr(is_now))), rules.of_option(name)
        elif is_other and (name in versions or "values" in before):
            what = "is another function than before, by its source or" if _is_name(is_now) else "is another than before, by"
            yield f"{name}={is_now} {what} the values that it refers to (see versioned)", rules.of_option(name)


def _parts_that_differ(was: str, is_now: str) -> tuple[str, str]:
    """Two texts; of long ones what differs, and some of what is around it.

    >>> _parts_that_differ("a" + " same" * 30 + " old" + " same" * 30, "a" + " same" * 30 + " new" + " same" * 30)
    ('...same same same same same old same same same same same...', '...same same same same same new same same same same same...')
    """
    if max(len(was), len(is_now)) <= _SHORT:
        return was, is_now
    begin = was.rfind(" ", 0, max(_alike(was, is_now) - _AROUND, 0)) + 1
    was, is_now = ("..." * (begin > 0) + text[begin:] for text in (was, is_now))
    left_out = max(_alike(was[::-1], is_now[::-1]) - _AROUND, 0)
    end = "..." * (left_out > 0)
    return was[: len(was) - left_out] + end, is_now[: len(is_now) - left_out] + end


def _alike(one: str, other: str) -> int:
    """The number of characters that two texts begin with alike."""
    return next((n for n, (a, b) in enumerate(zip(one, other, strict=False)) if a != b), min(len(one), len(other)))


def _versions(before: Fingerprint, now: Fingerprint) -> tuple[Mapping[str, str], Mapping[str, str]]:
    """The versions of the options of two transforms, in the form that both have."""
    form: Literal["values", "functions"] = "values" if "values" in before else "functions"
    return before.get(form, {}), now.get(form, {})


def _is_name(text: Any) -> bool:
    """Whether an option is displayed by the name of a function alone."""
    return isinstance(text, str) and _NAME.fullmatch(text) is not None


def _of_inputs(before: Fingerprint, now: Fingerprint, rules: Rules) -> Iterator[tuple[str, Verdict]]:
    """The differences between the inputs of two transforms; properties that one of them has alone are not compared."""
    for number, (one, other) in enumerate(zip(before["inputs"], now["inputs"], strict=False)):
        for name in filter((_of_table(one) & _of_table(other)).__contains__, _OF_TABLE):
            if _DECIMAL.sub("decimal", one[name]) == _DECIMAL.sub("decimal", other[name]):
                continue
            yield f"{name} of {_place(number, now)} was {one[name]} and is {other[name]}", rules.otherwise
    if len(before["inputs"]) != len(now["inputs"]):
        yield f"it had {len(before['inputs'])} inputs and has {len(now['inputs'])}", rules.otherwise
    made, made_now = before.get("upstream"), now.get("upstream")
    if made is not None and made_now is not None and made != made_now:
        yield f"it was behind {_labels(made)} and is behind {_labels(made_now)}", rules.otherwise


_SHORT: Final = 120
_AROUND: Final = 25
_NAME: Final = re.compile(r"(\w+\()*[\w.<>]+\)*")
_WORST_FIRST: Final[tuple[Verdict, ...]] = ("needs history", "rebuilt")
_DECIMAL: Final = re.compile(r"^decimal\d+\(.*\)$")
"""Keys that are numbers of any digits, which are compared by their values."""
_OF_TABLE: Final = ("key", "order", "key coder", "form")
"""The properties of an input that is a table, beside the type of its values, whose columns the state compares."""


def _of_table(columns: Mapping[str, str]) -> set[str]:
    """The properties of an input that is a table, of all that a manifest has of it; none of Arrow columns with such names."""
    return set(_OF_TABLE).intersection(columns) if columns.get("order") in get_args(Order) else set()


def _place(number: int, fingerprint: Fingerprint) -> str:
    return "the input" if len(fingerprint["inputs"]) == 1 else f"input {number + 1}"


def _labels(made: Sequence[Sequence[str]]) -> str:
    return ", ".join(" and ".join(labels) or "no transform" for labels in made)
