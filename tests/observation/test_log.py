import logging

import pytest

from geonode.observation.log import logged

LEVELS = ["debug", "info", "warning", "error"]


@pytest.mark.parametrize("level", LEVELS)
def test_what_is_at_least_as_grave_is_said_on_stderr(level, capsys):
    logger = logging.getLogger("geonode.somewhere")
    with logged(level):
        for each in LEVELS:
            logger.log(logging.getLevelName(each.upper()), each)
    written = capsys.readouterr()
    said = [f"geonode.somewhere: {each}" for each in LEVELS[LEVELS.index(level) :]]
    assert (written.out, written.err.splitlines()) == ("", said)


def test_the_log_ends_with_the_work_also_if_it_fails(capsys):
    logger = logging.getLogger("geonode")
    with pytest.raises(KeyError), logged("debug"):
        raise KeyError
    assert (logger.handlers, logger.level) == ([], logging.NOTSET)
    logger.info("too late")
    assert capsys.readouterr().err == ""
