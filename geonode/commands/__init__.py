"""Commands of `geonode`, and their common parts."""
