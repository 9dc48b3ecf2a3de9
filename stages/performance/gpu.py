"""Utilisation of an NVIDIA GPU while something runs, by nvidia-smi, which asks NVML."""

import subprocess
from collections.abc import Iterator
from contextlib import contextmanager
from statistics import mean

QUERY = "utilization.gpu,utilization.memory,memory.used,memory.total"
MILLISECONDS = 100
"""From one sample to the next. NVML looks back for up to a second."""

Sampled = dict[str, float]


@contextmanager
def sampled() -> Iterator[Sampled]:
    """Context with numbers that are there when it ends; none without nvidia-smi.

    Yields:
        `busy_percent` and `memory_busy_percent`, shares of the time in which a kernel ran and in
        which memory was read or written; `memory_percent`, the largest share in use.
    """
    command = ["nvidia-smi", "--id=0", f"--query-gpu={QUERY}", "--format=csv,noheader,nounits"]
    command.append(f"--loop-ms={MILLISECONDS}")
    found: Sampled = {}
    try:
        process = subprocess.Popen(command, stdout=subprocess.PIPE, text=True)
    except OSError:
        yield found
        return
    try:
        yield found
    finally:
        process.terminate()
        said, _ = process.communicate()
        lines = [line.split(",") for line in said.splitlines()]
        rows = [
            [float(cell) for cell in line] for line in lines if len(line) == QUERY.count(",") + 1
        ]
        if rows:
            busy, of_memory, used, total = zip(*rows, strict=True)
            found |= {"busy_percent": mean(busy), "memory_busy_percent": mean(of_memory)}
            found["memory_percent"] = 100 * max(used) / total[0]
