"""From the rows of a file to the spectra in its table."""
