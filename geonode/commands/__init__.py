"""The commands of `geonode`, one module each, and the frame around them."""
