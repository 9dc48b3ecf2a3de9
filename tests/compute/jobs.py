"""Jobs that a worker process can import in a moment, and what a program needs to run them."""

import os
import signal
import time

import numpy as np

from geonode.config import EngineParameters

HERE = EngineParameters(kind="local", scheduler=None, workers=1)


def square(job, report):
    report(job)
    return job**2, os.getpid(), os.getppid()


def waits(job, report):
    os.write(1, b"at work\n")  # at once: two of them write to one pipe
    time.sleep(600)


def dies(job, report):
    report(1)
    os.kill(os.getpid(), signal.SIGKILL)


def busy(seconds, size):
    """Takes processor time and some bytes of memory, and tells which process does."""

    def work(tile, report):
        held, end = np.ones(size // 8), time.process_time() + seconds
        while time.process_time() < end:
            held += 1
        report(1)
        time.sleep(seconds)  # until its memory has been looked at
        return os.getpid()

    return work
