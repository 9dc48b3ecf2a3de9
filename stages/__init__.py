"""Stages of the pipeline: thin commands that read artifacts, call geonode, and write artifacts."""
