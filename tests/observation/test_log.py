import logging

import pytest

from geonode.observation.log import logged

LEVELS = ["debug", "info", "warning", "error"]


@pytest.mark.parametrize("level", LEVELS)
def test_what_is_at_least_as_grave_is_said_on_stderr_until_the_work_ends(level, capsys):
    logger = logging.getLogger("geonode.somewhere")
    with pytest.raises(KeyError), logged(level):
        for each in LEVELS:
            logger.log(logging.getLevelName(each.upper()), f"{each}\x1b")
        raise KeyError
    logger.error("too late")
    written = capsys.readouterr()
    said = [f"geonode.somewhere: {each}\\x1b" for each in LEVELS[LEVELS.index(level) :]]
    assert (written.out, written.err.splitlines()) == ("", said)
    assert logging.getLogger("geonode").level == logging.NOTSET
