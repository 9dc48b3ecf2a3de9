"""What is measured: tables of spectra, their charts, and synthetic ones."""
