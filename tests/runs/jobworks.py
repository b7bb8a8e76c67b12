"""Work for job queues in tests; it must stand at the top of a module that workers can import."""

import contextlib
import os
import threading
import time

import numpy as np

from railweave.errors import EngineError, InputError
from railweave.runs import Cancelled, JobResult


def square(value, context):
    context.progress("square", 0.5)
    return {"square": value * value, "pid": os.getpid()}


def leave_a_mark(path, context):
    """Count how often this was done, one byte a time."""
    with open(path, "ab") as stream:
        stream.write(b"x")
    return {"path": str(path)}


def obey(argument, context):
    """Go on until cancelled, asking often."""
    step = threading.Event()
    context.publish({"pid": os.getpid()})
    while True:
        context.progress("obeying", 0.25)
        step.wait(0.02)


def disobey(argument, context):
    """Ignore every wish to stop."""
    context.publish({"pid": os.getpid()})
    while True:
        time.sleep(0.05)


def stubborn(argument, context):
    """Swallow the cancel and go on."""
    context.publish({"pid": os.getpid()})
    while True:
        with contextlib.suppress(Cancelled):
            context.check()
        time.sleep(0.05)


def finish_anyway(path, context):
    """Hold until cancelled, then return a result all the same."""
    context.publish({"pid": os.getpid()})
    try:
        obey_quietly(context)
    except Cancelled:
        return {"finished": "anyway"}


def obey_quietly(context):
    step = threading.Event()
    while True:
        context.check()
        step.wait(0.02)


def until_file(path, context):
    """Go on until a file is there."""
    step = threading.Event()
    context.progress("waiting", 0.1)
    while not os.path.exists(path):
        context.check()
        step.wait(0.01)
    return {"path": str(path)}


def die(number, context):
    os.kill(os.getpid(), number)
    time.sleep(60)


def leave(code, context):
    os._exit(code)


def fail(text, context):
    raise InputError(text)


def stall(text, context):
    raise EngineError(text)


def blunder(text, context):
    raise KeyError(text)


def hog(size_bytes, context):
    return {"bytes": np.ones(size_bytes, dtype=np.uint8).nbytes}


def tables(value, context):
    import polars as pl

    return JobResult({"value": value}, {"rows": pl.DataFrame({"a": [1, 2, value]})})


def unpicklable(value, context):
    return threading.Lock()


def not_json(value, context):
    return {"value": object}


def many_steps(count, context):
    for number in range(count):
        context.progress("counting", number / count)
    for number in range(3):
        context.publish({"number": number})
    context.progress("end", 1.0)
    return {"count": count}
