"""What is said of a training while it runs."""

import logging
import time
from collections.abc import Callable

from geonode.usage import memory_in_use

SECONDS_BETWEEN = 5.0
"""From one line of the log to the next."""

_LOG = logging.getLogger(__name__)


class Monitor:
    """Log of a training at INFO: loss, samples a second and memory, once in some seconds.

    Rows are the samples of an epoch, of all models.
    """

    said = time.monotonic()  # of this process, in which one training may follow another

    def __init__(self, name: str, rows: int) -> None:
        self._name, self._rows = name, rows
        self._since, self._epochs = time.monotonic(), 0

    def __call__(self, epoch: int, loss: Callable[[], float]) -> None:
        """Look at the clock after an epoch.

        The mean loss before the last step is computed where it is said.
        """
        self._epochs += 1
        if not _LOG.isEnabledFor(logging.INFO) or time.monotonic() < Monitor.said + SECONDS_BETWEEN:
            return
        last, now = loss(), time.monotonic()  # of a GPU, which has then done all epochs
        rate = self._rows * self._epochs / (now - self._since)
        said = "%s: epoch %d, loss %.4g, %s samples a second; %s"
        _LOG.info(said, self._name, epoch, last, f"{rate:,.0f}", memory_in_use())
        self._since, self._epochs, Monitor.said = now, 0, now
