"""Write the few numbers by which runs are compared: scores, coverage, seconds."""

from typing import Any

from geonode.config import Parameters
from stages.command import stage
from stages.paths import METRICS, PIPELINE, RECORDS


@stage()
def app(parameters: Parameters) -> str:  # noqa: ARG001 - as every stage
    """Collect the scores of the predictions, and the seconds and memory of the stages."""
    from geonode.storage.document import read_metrics, write_metrics
    from geonode.storage.record import Record

    # probe runs every time: were its seconds in the summary, it and the report would run too
    timed = [name for name in PIPELINE if name != "probe"]
    records = {name: Record.read(RECORDS / f"{name}.json") for name in timed}
    seconds = {name: record.seconds for name, record in records.items()}
    total = sum(seconds.values())
    found = {
        **_scores(read_metrics(METRICS / "validate.json")),
        "seconds": {**seconds, "total": total},
        "peak_mb": max((r.peak_mb for r in records.values() if r.peak_mb), default=None),
    }
    write_metrics(METRICS / "summary.json", found)
    return f"{len(records)} stages in {total:.1f} s -> {METRICS / 'summary.json'}"


def _scores(validated: dict[str, Any]) -> dict[str, float | None]:
    """Scores of predicted spectra, of their 90% intervals, and of estimated concentrations."""
    held = (validated["coverage"] or {}).get("90", {})
    estimated = validated["estimation"]
    return {
        **{name: validated[name] for name in ("q2", "pooled_r2", "interior_pooled_r2", "rmse")},
        "best_baseline_rmse": validated["best_baseline_rmse"],
        "skill": validated["skill"],
        "coverage90_interior": held.get("interior"),
        "coverage90_ends": held.get("ends"),
        "concentration_error": estimated.get("median_error_of_range"),
        "concentration_coverage90": estimated.get("coverage90"),
        "pls_error": validated["calibrations"]["pls"]["median_error_of_range"],
    }


if __name__ == "__main__":
    app()
