"""Calls of the command line."""

from typer.testing import CliRunner

from geonode.cli import app


def call(*words):
    """Result of `geonode` with these words."""
    return CliRunner().invoke(app, [str(word) for word in words])
