"""[Bug]: Python FnApiRunner gives a side input each element twice if its collection, from timers, feeds a stateful DoFn

The elements of a collection are output by event-time timers of a stateful DoFn. The collection is a side input, and
the input of a second stateful DoFn. The side input then has each element twice; the pipeline ends in state DONE. Without
the second stateful DoFn it has each element once.

Expected: [0, 1] in both cases. Output (Python 3.11, Beam 2.77.0; `python side_input_twice.py`):

    side input alone: [0, 1]
    also the input of a stateful DoFn: [0, 0, 1, 1]
"""

import apache_beam as beam
from apache_beam.coders import VarIntCoder
from apache_beam.metrics import Metrics
from apache_beam.pvalue import AsList
from apache_beam.runners.portability.fn_api_runner import FnApiRunner
from apache_beam.transforms.timeutil import TimeDomain
from apache_beam.transforms.userstate import BagStateSpec, TimerSpec, on_timer


def wait(name):
    bag, timer = BagStateSpec(f"bag of {name}", VarIntCoder()), TimerSpec(f"timer of {name}", TimeDomain.WATERMARK)

    class Wait(beam.DoFn):
        def process(self, element, bag=beam.DoFn.StateParam(bag), timer=beam.DoFn.TimerParam(timer)):
            bag.add(element[1])
            timer.set(100)

        @on_timer(timer)
        def fire(self, key=beam.DoFn.KeyParam, bag=beam.DoFn.StateParam(bag)):
            yield from [(key, value) for value in bag.read()]
            bag.clear()

    return beam.ParDo(Wait()).with_output_types(tuple[int, int])


def count(_, side):
    for _, value in side:
        Metrics.counter("side input", str(value)).inc()


def side_input(second):
    pipeline = beam.Pipeline(runner=FnApiRunner())
    side = pipeline | "side" >> beam.Create([(0, 0), (1, 1)]) | "first" >> wait("first")
    if second:
        _ = side | "second" >> wait("second")
    _ = pipeline | "main" >> beam.Create(["once"]) | beam.Map(count, AsList(side))
    result = pipeline.run()
    result.wait_until_finish()
    counters = result.metrics().query()["counters"]
    return sorted(int(each.key.metric.name) for each in counters for _ in range(each.committed))


if __name__ == "__main__":
    print("side input alone:", side_input(False))
    print("also the input of a stateful DoFn:", side_input(True))
