"""The page of a calibration."""

from geonode.calibration.fit import Calibration
from geonode.report.html_parts import escaped

GENERATOR = '<meta name="generator" content="geonode calibrate">'


def page(calibration: Calibration) -> str:
    """The page."""
    return f"<!DOCTYPE html>{GENERATOR}<p>{escaped(calibration.sentence)}</p>"
