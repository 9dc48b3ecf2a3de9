"""Report: one page about measured and predicted spectra, for chemists."""

import sys

from geonode.errors import GeonodeError

if sys.flags.optimize > 1:  # altair copies docstrings when it is imported
    raise GeonodeError(
        "found Python without docstrings (-OO, PYTHONOPTIMIZE=2), which pages and figures need; "
        "expected -O at most"
    )
