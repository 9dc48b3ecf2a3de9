"""Decoders of spectra: the posterior, networks on path features, and their blend."""
