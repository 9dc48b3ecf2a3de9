"""Pictures: the charts that commands and the pipeline write as PNG."""

from geonode.report.data import Report


def folds_picture(report: Report):
    """x"""
