"""Commands `geonode info` and `geonode verify`: outputs of the pipeline and their state."""

from collections.abc import Iterator
from dataclasses import asdict
from pathlib import Path
from typing import Any

from geonode.commands.common import AsJson, Root, aligned, echo_json, found_wrong
from geonode.progress import bar
from geonode.terminal import tell

_KINDS = {
    "arrays": "Zarr group",
    "weights": "weights (safetensors)",
    "document": "sealed JSON",
    "table": "CSV",
    "file": "file",
}


def info(root: Root = Path(), as_json: AsJson = False) -> None:
    """List the outputs of the pipeline: dimensions, arrays, sizes and state; and the model store.

    The exit status is 1 if an output is damaged. An absent output is no error here.
    """
    from geonode.estimation.model_store import LARGEST_BYTES, ModelStore  # noqa: PLC0415
    from geonode.storage.inventory import inventory  # noqa: PLC0415

    found = [asdict(entry) | {"ratio": entry.ratio} for entry in inventory(root)]
    store = ModelStore.of_user()
    models = {entry.name: size for entry, size in store.entries().items()}
    if as_json:
        echo_json({"outputs": found, "store": {"folder": str(store.folder), "models": models}})
    else:
        tell("\n\n".join("\n".join(_described(entry)) for entry in found))
        sizes = f"{_size(sum(models.values()))} of at most {_size(LARGEST_BYTES)}"
        tell(f"\n{store.folder}: {len(models)} learned models, {sizes}")
    if damaged := [entry["path"] for entry in found if entry["state"] == "damaged"]:
        found_wrong(f"{len(damaged)} of {len(found)} outputs are damaged: {', '.join(damaged)}")


def verify(root: Root = Path(), as_json: AsJson = False) -> None:
    """Read every byte of the outputs, and report what is damaged, changed, stale or absent.

    Checked are the checksums of artifacts and weights, that every number is finite, that artifacts
    agree on the dimensions they share, and that all is as in dvc.lock. The exit status is 1 if
    there are findings. Changed code and parameters are reported by dvc status.
    """
    from geonode.storage import integrity, pipeline  # noqa: PLC0415

    paths = [output.path for output in pipeline.outputs(root)]
    with bar("verifying", integrity.workload(root)) as report:
        findings = list(integrity.verify(root, report))
    if as_json:
        echo_json({"outputs": paths, "findings": [asdict(finding) for finding in findings]})
    else:
        for finding in findings:
            tell(f"{finding.problem}: {finding.message}")
    if findings:
        wrong = ", ".join(dict.fromkeys(finding.path for finding in findings))
        found_wrong(f"findings in {wrong}: {len(findings)}")
    if not as_json:
        tell(f"all {len(paths)} outputs are intact and as {pipeline.LOCK} has them")


def _described(entry: dict[str, Any]) -> Iterator[str]:
    kind, stage = _KINDS[entry["kind"]], entry["stage"]
    yield f"{entry['path']}: {kind}, by stage {stage} ({entry['description']})"
    if entry["state"] in ("absent", "damaged"):
        yield f"  {entry['state']}: {entry['reason']}"
        return
    state = "intact" if entry["state"] == "intact" else "there, has no checksum of its own"
    sizes = f"{_size(entry['bytes_on_disk'])} on disk"
    if entry["ratio"] is not None:
        sizes += f", {_size(entry['bytes_in_memory'])} uncompressed, ratio {entry['ratio']:.2f}"
    yield f"  {state}; {sizes}"
    if entry["dimensions"]:
        yield "  " + ", ".join(f"{name} {size}" for name, size in entry["dimensions"].items())
    rows = [
        (
            f"  {array['name']}",
            array["dtype"],
            " ".join(map(str, array["shape"])),
            " ".join(array["dims"]),
            array["units"],
            array["long_name"],
        )
        for array in entry["arrays"]
    ]
    yield from aligned(rows)


def _size(count: int) -> str:
    """Size in bytes, kB, MB, GB or TB, powers of 1000."""
    number, unit = float(count), "B"
    for larger in ("kB", "MB", "GB", "TB"):
        if number < 1000:
            break
        number, unit = number / 1000, larger
    return f"{count} B" if unit == "B" else f"{number:.1f} {unit}"
