"""Command `geonode verify`: artifacts of the pipeline and their state."""

from dataclasses import asdict
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer
from rich.filesize import decimal

from geonode.commands.common import AsJson, echo_json, found_wrong
from geonode.progress import bar
from geonode.terminal import aligned, tell

if TYPE_CHECKING:
    from geonode.storage.artifact import ArrayEntry

Folder = Annotated[Path, typer.Argument(help="Folder of artifacts.")]


def verify(folder: Folder = Path("data"), as_json: AsJson = False) -> None:
    """Read every byte of the artifacts; list their arrays and sizes, and what is wrong with them.

    Checked are the checksums, and that every artifact was made from the others that are there. NaN
    and infinity are never written. The store of learned models is listed too. The exit status is 1
    if there are problems. Changed code, parameters and files are reported by dvc status.
    """
    from geonode.prediction.model_store import LARGEST_BYTES, ModelStore  # noqa: PLC0415
    from geonode.storage import verified  # noqa: PLC0415

    with bar("verifying", sum(map(verified.size_of, verified.artifacts(folder)))) as report:
        found = verified.verified(folder, report)
    store = ModelStore.of_user()
    models = {entry.name: size for entry, size in store.entries().items()}
    problems = [(one.path, problem) for one in found for problem in one.problems]
    if as_json:
        listed = [
            {
                "path": str(one.path),
                "bytes_on_disk": one.bytes_on_disk,
                "arrays": [asdict(array) for array in one.arrays],
            }
            for one in found
        ]
        wrong = [
            {"path": str(path), "array": getattr(error, "array", ""), "message": str(error)}
            for path, error in problems
        ]
        of_store = {"folder": str(store.folder), "models": models}
        echo_json({"artifacts": listed, "problems": wrong, "store": of_store})
    else:
        for one in found:
            tell(f"{one.path}: {decimal(one.bytes_on_disk)}")
            for problem in one.problems:
                tell(f"  {problem}")
            for line in aligned([_cells(array) for array in one.arrays]):
                tell(line)
        sizes = f"{decimal(sum(models.values()))} of at most {decimal(LARGEST_BYTES)}"
        tell(f"{store.folder or 'no store'}: {len(models)} learned models, {sizes}")
    if problems:
        paths = ", ".join(dict.fromkeys(str(path) for path, _ in problems))
        found_wrong(f"problems of {paths}: {len(problems)}")
    if not as_json:
        tell(f"all {len(found)} artifacts are intact and belong together")


def _cells(array: "ArrayEntry") -> tuple[str, ...]:
    """Cells of the line about an array."""
    shape, dims = " ".join(map(str, array.shape)), " ".join(array.dims)
    return f"  {array.name}", array.dtype, shape, dims, array.units, array.long_name
