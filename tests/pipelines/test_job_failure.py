"""A user's exception out of what the job server says."""

from pathlib import Path

from beam_joins.pipelines.runners.job_failure import job_failure, user_error
from beam_joins.pipelines.runners.spark_server import SPARK

LOG = Path("/tmp/x.log")

BEAM = '  File "apache_beam/runners/common.py", line 1512, in apache_beam.runners.common.DoFnRunner.process\n'
USER = '  File "/home/me/shop.py", line 7, in price\n    return 1 / quantity\n           ~~^~~~~~~~~~\n'
MESSAGE = (
    "Pipeline job_1 failed in state FAILED: org.apache.spark.SparkException: Job aborted due to stage failure: "
    "java.lang.RuntimeException: Error received from SDK harness for instruction 4: Traceback (most recent call last):\n"
    f"{BEAM}{USER}ZeroDivisionError: division by zero\n\n"
    "During handling of the above exception, another exception occurred:\n\n"
    f"Traceback (most recent call last):\n{BEAM}{USER}"
    "ZeroDivisionError: division by zero [while running 'Price it-ptransform-12']\n\n"
    "\tat org.apache.beam.runners.fnexecution.control.FnApiControlClient.onNext(FnApiControlClient.java:180)\n"
    "\t... 1 more\n\nDriver stacktrace:\n"
)


def test_the_message_holds_the_users_frames_exception_and_step_and_nothing_of_java():
    failure = job_failure(MESSAGE, LOG, SPARK)
    assert str(failure) == f"the job failed in step 'Price it':\n{USER}ZeroDivisionError: division by zero\nThe log is {LOG}."
    assert failure.user
    assert failure.log == LOG


def test_an_exception_of_several_lines_is_kept_whole():
    actual = user_error(f"Traceback (most recent call last):\n{USER}ValueError: first\nsecond\n\tat org.x.Y(Y.java:1)\n")
    assert actual is not None
    assert actual.exception == "ValueError: first\nsecond"


def test_of_a_function_that_was_given_to_a_transform_the_frames_are_its_own():
    ours = '  File "/site/beam_joins/transforms/user_functions.py", line 7, in call\n    raise failed\n'
    start, failed = (
        "Traceback (most recent call last):\n",
        "beam_joins.function_failed.FunctionFailed: Price it: joiner raised KeyError: 'n'",
    )
    actual = user_error(
        f"{start}{BEAM}{USER}KeyError: 'n'\n\nThe above exception was the direct cause of the following exception:\n\n"
        f"{start}{BEAM}{ours}{failed}\n\nDuring handling of the above exception, another exception occurred:\n\n"
        f"{start}{BEAM}{ours}{failed} [while running 'Price it/Join-ptransform-12']\n\n\tat org.x.Y(Y.java:1)\n"
    )
    assert actual is not None
    assert (actual.frames + "\n", actual.exception, actual.step) == (USER, failed, "Price it/Join")


def test_a_message_without_python_has_no_user_error():
    assert user_error("java.lang.IllegalStateException: no") is None


def test_a_failure_of_spark_is_its_first_line():
    failure = job_failure("Pipeline job_1 failed in state FAILED: java.lang.IllegalStateException: no\n\tat x", LOG, SPARK)
    assert str(failure) == f"the job failed: java.lang.IllegalStateException: no The log is {LOG}."
    assert not failure.user


def test_a_full_heap_names_the_option_that_helps():
    assert "--driver_memory" in str(job_failure("java.lang.OutOfMemoryError: Java heap space", LOG, SPARK))


def test_a_cluster_of_another_version_is_said_to_be_one():
    log = b"Caused by: java.lang.RuntimeException: java.io.InvalidClassException: org.apache.spark.rpc.netty.RpcEndpointVerifier$Check"
    failure = job_failure("java.lang.IllegalStateException: Cannot call methods on a stopped SparkContext.", LOG, SPARK, log)
    assert str(failure).startswith("--spark_master_url names a cluster that is not of Spark 3.5 for Scala 2.12. ")


def test_a_lost_worker_is_said_to_be_one():
    message = "java.util.concurrent.ExecutionException: io.grpc.StatusRuntimeException: CANCELLED: client cancelled"
    assert "worker process ended" in str(job_failure(message, LOG, SPARK))


def test_a_machine_without_a_worker_pool_is_named():
    message = (
        "Pipeline job_1 failed in state FAILED: org.apache.spark.SparkException: Job aborted due to stage failure: "
        "Task 1 in stage 1.0 failed 4 times, most recent failure: Lost task 1.3 in stage 1.0 (TID 8) (worker-2 executor 0): "
        "io.grpc.StatusRuntimeException: UNAVAILABLE: io exception\n\tat x"
    )
    assert "no worker pool answers on worker-2: " in str(job_failure(message, LOG, SPARK))
