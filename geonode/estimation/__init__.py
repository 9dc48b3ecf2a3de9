"""From a model of a series to spectra at any concentration, and from spectra back."""
