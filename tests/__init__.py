"""Tests of geonode; `checked` is what `make test-all` checks the annotations of calls with."""

from beartype import BeartypeConf, beartype

checked = beartype(conf=BeartypeConf(is_pep484_tower=True))  # an int is a float, as for mypy
