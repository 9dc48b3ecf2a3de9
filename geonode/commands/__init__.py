"""Commands of `geonode`, one module each, and their common parts."""
