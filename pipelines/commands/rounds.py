"""Rounds of ``--follow``: the options, and the loop that repeats a round until a signal asks to stop."""

import argparse
import math
import sys
import time
from collections.abc import Callable
from typing import Any, Final

from beam_joins.errors import is_unavailable
from beam_joins.options.spans import seconds_of
from beam_joins.pipelines.base.input_error import input_error_in
from beam_joins.pipelines.base.interruption import Interruption
from beam_joins.pipelines.base.shared_by_rounds import rounds_share
from beam_joins.pipelines.commands.command_line import sentence_and_code

_FIRST_PAUSE, _LAST_PAUSE = 1.0, 30.0
"""The seconds between attempts at a round, which become twice as many with each."""
_FOLLOW: Final = "--follow"
LOOK_SECONDS: Final = 0.1
"""The time after which a round that sees new files looks again: files belong together of which some come a moment later."""


def add_rounds(group: Any) -> None:
    """Add ``--follow`` and the options that say how rounds follow each other."""
    group.add_argument(_FOLLOW, action="store_true", help="repeat the run until SIGINT or SIGTERM")
    group.add_argument(
        "--every",
        type=_seconds,
        default="10s",
        metavar="TIME",
        help=f"with {_FOLLOW}, the time from the start of one run to the start of the next: 500ms, 10s, 5m (default: %(default)s)",
    )
    group.add_argument(
        "--retry-for",
        type=_seconds,
        default="5m",
        metavar="TIME",
        help=f"with {_FOLLOW}, the time for which a round is tried again while a server or a store does not answer, once one has "
        "succeeded; 0s: not at all (default: %(default)s)",
    )
    group.add_argument(
        "--whole-files",
        action="store_true",
        help=f"with {_FOLLOW}, read a new file at once, as it is complete under its name; by default a file is read when it has not "
        "changed for a round",
    )


def repeated(
    round: Callable[[], Callable[[], None]],
    args: argparse.Namespace,
    interruption: Interruption,
    program: str,
    failed: Callable[[str], None] = lambda sentence: None,
) -> None:
    """Call ``round`` until a signal asks to stop, at once and then ``--every`` so many seconds, and behind each that succeeds the
    function that it gives.

    A round that raises ends the loop with its error; where a server or a store does not answer it is repeated for the time of
    ``--retry-for``, which a line of the ``program`` says, and ``failed`` gets the sentence.
    """
    attempts = Attempts(args.retry_for)
    with rounds_share(), interruption.later():  # between two rounds a second signal has nothing to give up
        while not interruption.by:
            begin = time.monotonic()
            try:
                done = round()
            except Exception as error:
                pause, sentence = attempts.next_pause(error)
                failed(sentence)
                print(f"{program}: {sentence}: next attempt in {pause:,.0f} s (--retry-for)", file=sys.stderr, flush=True)
                interruption.wait(pause)
                continue
            attempts.succeeded()
            done()
            interruption.wait(begin + args.every - time.monotonic())


class Attempts:
    """The attempts at a round while a server or a store does not answer, for so many ``seconds`` from the first that has failed;
    the first round of all is not repeated, as an address may be wrong.

    >>> from beam_joins import Unavailable
    >>> attempts, error = Attempts(300), Unavailable("the broker does not answer")
    >>> attempts.succeeded()
    >>> [attempts.next_pause(error)[0] for _ in range(3)]
    [1.0, 2.0, 4.0]
    """

    def __init__(self, seconds: float) -> None:
        self._seconds, self._begin, self._pause = seconds, -math.inf, _FIRST_PAUSE

    def succeeded(self) -> None:
        """A round has succeeded."""
        self._begin, self._pause = math.inf, _FIRST_PAUSE

    def next_pause(self, error: Exception) -> tuple[float, str]:
        """The seconds until the next attempt, and the sentence on the error; raises the error where there is none."""
        now = time.monotonic()
        wrong = input_error_in(error) or error
        self._begin = min(self._begin, now)
        left = self._begin + self._seconds - now
        if left <= 0 or not (is_unavailable(wrong) or is_unavailable(error)):
            raise error
        pause, self._pause = min(self._pause, left), min(2 * self._pause, _LAST_PAUSE)
        return pause, str(sentence_and_code(error)[0])


def _seconds(text: str) -> Any:
    try:
        return seconds_of(text)
    except ValueError as error:
        raise argparse.ArgumentTypeError(str(error)) from None
