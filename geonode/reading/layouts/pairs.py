"""Two columns a spectrum, its wavelengths and its values, as Cary instruments write them."""

import numpy as np

from geonode.errors import SpectraError
from geonode.reading.headers import axis_header, role
from geonode.reading.layouts.layout import Asked
from geonode.reading.layouts.table_place import counts_rows
from geonode.reading.levels import with_scan_marks
from geonode.reading.sheet import Cells, Labels, Row, Sheet
from geonode.spectra.common_axis import on_common_axis


class TwoColumnsEach:
    """Two columns a spectrum; each may have an axis of its own, and end where it likes."""

    name = "two columns a spectrum"

    def fit(self, grid: Cells, asked: Asked) -> tuple[bool, str]:  # noqa: ARG002
        """A row of the header names an axis above every second column."""
        row = _axis_row(grid)
        if row is None:
            return False, "no row of the header names an axis above every second column"
        return True, f"row {row[0]} names an axis above every second column"

    def long(self, grid: Cells, asked: Asked) -> Sheet:
        """The spectra on their common axis, without those of a baseline."""
        axis_row = _axis_row(grid) or grid.headings[-1]
        header_row, cells = axis_row
        others = [row for row in grid.headings if row != axis_row]
        if len(others) > 1:
            raise SpectraError(
                f"rows {others[0][0]} and {others[1][0]}: found two rows above those of the axis, "
                "expected one row of names or concentrations"
            )
        names, signal = cells[1::2], None
        if others:
            header_row, above = others[0]
            names = [one or two for one, two in zip(above[::2], above[1::2], strict=True)]
        pairs = [at for at, name in enumerate(names) if not name.lower().startswith("baseline")]
        left = [name for name in names if name.lower().startswith("baseline")]
        if others:
            signals = {cells[2 * pair + 1] for pair in pairs}
            signal = signals.pop() if len(signals) == 1 else None
        axes, values = [], []
        for pair in pairs:
            at, spectrum = grid.numbers([2 * pair])[:, 0], grid.numbers([2 * pair + 1])[:, 0]
            lost = np.flatnonzero(np.isnan(at) & np.isfinite(spectrum))
            if lost.size:
                row, name = grid.row_numbers[lost[0]], names[pair]
                raise SpectraError(f"row {row}: found a value of {name!r} without its wavelength")
            axes.append(at[~np.isnan(at)])
            values.append(spectrum[~np.isnan(at)])
        if not pairs:
            raise SpectraError("found baselines alone, expected spectra beside them")
        names = [names[pair] for pair in pairs]
        axis, spectra, notes = on_common_axis(
            axes, values, [f"spectrum {name!r}" for name in names]
        )
        axis_name, axis_unit = axis_header(cells[0])
        skipped = (f"baselines: {', '.join(left)}",) if left else ()
        places = [f"row {header_row}, column {2 * pair + 1}" for pair in pairs]
        return Sheet.labelled(
            labels=[Labels("", with_scan_marks(names) if asked.series else names, places)],
            axis=axis,
            axis_name=axis_name,
            axis_unit=axis_unit,
            axis_places=[f"wavelength {value:.10g}" for value in axis],
            values=spectra,
            understood=grid.understood.also(skipped=skipped, notes=notes),
            signal=signal,
            columns=True,
            of_samples=counts_rows([*dict.fromkeys(names)]),
        )


def _axis_row(grid: Cells) -> Row | None:
    """The row of the header that names an axis above every second column; None: there is none."""
    for number, cells in grid.headings:
        named = {cell.lower() for cell in cells[::2]}
        if len(cells) >= 4 and len(cells) % 2 == 0 and len(named) == 1 and role(cells[0]) == "axis":
            return number, cells
    return None
