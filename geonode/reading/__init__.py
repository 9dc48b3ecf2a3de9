"""Files to named spectra: formats, layouts, amounts, and doubts about a file.

`files` reads any of them, `series_file` makes the series that parameters name, and `inspection`
shows how a file was understood. What a series is, and computing with it, is in `spectra`.
"""
