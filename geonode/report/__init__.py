"""Report: one page about measured and predicted spectra, for chemists."""
