"""[Bug]: Python FnApiRunner silently loses all elements of two fused stateful DoFns that use the same timer id

Timer ids are local to a DoFn. With the same timer id in two stateful DoFns that FnApiRunner fuses into one stage, the
pipeline ends in state DONE and elements are lost: of two chained DoFns all, of two that read one collection those of
the second. Without the identity Map in front of each, the chain fails with `IndexError: tuple index out of range`
in `_collect_written_timers`; without `bag.clear()` it does not end. Different timer ids, or a Reshuffle between the
two chained DoFns, give the right result. State ids may be shared.

Expected: 16 elements. Output (Python 3.11, Beam 2.77.0; `python shared_timer_id.py`):

    timers a, b: chained 16, side by side 16 + 16
    timers a, a: chained 0, side by side 16 + 0

Cause: the buffer of a stage's timers is named `create_buffer_id(timer_family_id, 'timers')`, and kept by that name
in `execution_context.timer_buffers` (`get_buffer` in `execution.py`; `_collect_written_timers` in `fn_runner.py`
looks it up), without the transform. So the timers of both DoFns are in one buffer, with the coder of the first.
"""

import apache_beam as beam
from apache_beam.coders import VarIntCoder
from apache_beam.metrics import Metrics
from apache_beam.runners.portability.fn_api_runner import FnApiRunner
from apache_beam.transforms.timeutil import TimeDomain
from apache_beam.transforms.userstate import BagStateSpec, TimerSpec, on_timer

ELEMENTS = [(key, value) for key in range(4) for value in range(4)]


def wait(timer_id):
    bag, timer = BagStateSpec("bag", VarIntCoder()), TimerSpec(timer_id, TimeDomain.WATERMARK)

    class Wait(beam.DoFn):
        def process(self, element, bag=beam.DoFn.StateParam(bag), timer=beam.DoFn.TimerParam(timer)):
            bag.add(element[1])
            timer.set(100)

        @on_timer(timer)
        def fire(self, key=beam.DoFn.KeyParam, bag=beam.DoFn.StateParam(bag)):
            yield from [(key, value) for value in bag.read()]
            bag.clear()

    return beam.Map(lambda element: element).with_output_types(tuple[int, int]) | beam.ParDo(Wait())


def count(element, name):
    Metrics.counter("test", name).inc()


def counts(first, second, chained):
    pipeline = beam.Pipeline(runner=FnApiRunner())
    source = pipeline | beam.Create(ELEMENTS)
    one = source | "one" >> wait(first)
    two = (one if chained else source) | "two" >> wait(second)
    _ = two | "count two" >> beam.Map(count, "two")
    if not chained:
        _ = one | "count one" >> beam.Map(count, "one")
    result = pipeline.run()
    result.wait_until_finish()
    found = {counter.key.metric.name: counter.committed for counter in result.metrics().query()["counters"]}
    return found.get("one", 0), found.get("two", 0)


if __name__ == "__main__":
    for ids in ("ab", "aa"):
        print(f"timers {ids[0]}, {ids[1]}: chained {counts(*ids, True)[1]}, side by side {' + '.join(map(str, counts(*ids, False)))}")
