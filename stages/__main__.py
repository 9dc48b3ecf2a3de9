"""Stage as DVC runs it: `python -m stages NAME`, with the options of `python -m stages.NAME`."""

import os
import runpy
import sys

from stages.paths import STAGES
from stages.server import SERVED, STARTING, handed_over, start_server


def main() -> None:
    """Run a stage, in a process forked by the server of this run of the pipeline if there is one.

    Only what DVC runs is handed over: elsewhere nobody expects the stage in another process.
    """
    names = ("probe", *STAGES)
    name = sys.argv.pop(1) if len(sys.argv) > 1 else "no name"
    if name not in names:
        sys.exit(f"error: found stage {name}, expected one of {', '.join(names)}")
    if sys.platform == "linux" and "DVC_STAGE" in os.environ:
        if name == STARTING:
            start_server()
        elif name in SERVED and (status := handed_over(name)) is not None:
            sys.exit(status)
    runpy.run_module(f"stages.{name}", run_name="__main__", alter_sys=True)


if __name__ == "__main__":
    main()
