"""Jobs that a worker process can import in a moment, and what a program needs to run them."""

import logging
import os
import signal
import time

import numpy as np

from geonode.config import EngineParameters
from geonode.errors import SpectraError

HERE = EngineParameters(kind="local", scheduler=None, workers=1)


def square(job, report):
    report(job)
    return job**2, os.getpid(), os.getppid()


def fails(job, report):
    if job == 2:
        raise SpectraError("found 2")
    return job


def waits(job, report):
    os.write(1, b"at work\n")  # at once: two of them write to one pipe
    time.sleep(600)


def dies(job, report):
    report(1)
    os.kill(os.getpid(), signal.SIGKILL)


def busy_and_logging(seconds, size=8):
    """Logs, takes processor time and some bytes of memory, and tells which process does."""

    def work(tile, report):
        logging.getLogger("geonode.tests").info("tile %d", tile)
        held, end = np.ones(size // 8), time.process_time() + seconds
        while time.process_time() < end:
            held += 1
        report(1)
        time.sleep(seconds)  # until its memory has been looked at
        return os.getpid()

    return work
