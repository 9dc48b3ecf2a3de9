import subprocess
import sys

import pytest

ENDS = """
import atexit, gc
from {module} import {called}
atexit.register(lambda: print(gc.get_threshold()[0], gc.get_freeze_count() > 0))
try:
    {called}({arguments})
except SystemExit:
    pass
"""


def ends(module, called, arguments):
    """What is seen after everything that a process registered for its end, but for Python's own."""
    code = ENDS.format(module=module, called=called, arguments=arguments)
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    return done.stdout.splitlines()[-1]


def test_commands_collect_seldom_and_not_at_their_end():
    assert ends("geonode.cli", "app", "['inspect', 'absent.csv']") == "10000 True"


def test_triton_gets_back_what_it_reports_otherwise():
    pytest.importorskip("triton")
    assert ends("geonode.cli", "app", "['devices', '--json']") == "10000 False"


def test_the_library_leaves_the_process_as_it_is():
    assert ends("geonode.errors", "GeonodeError", "'not raised'").endswith(" False")
