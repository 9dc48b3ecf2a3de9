"""Commands `geonode info` and `geonode verify`: artifacts of the pipeline and their state."""

from collections.abc import Iterator
from dataclasses import asdict
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from geonode.commands.common import AsJson, echo_json, found_wrong
from geonode.progress import bar
from geonode.terminal import aligned, tell

if TYPE_CHECKING:
    from geonode.storage.inventory import Entry

Folder = Annotated[Path, typer.Argument(help="Folder of artifacts.")]


def info(folder: Folder = Path("data"), as_json: AsJson = False) -> None:
    """List the artifacts of the pipeline: arrays, sizes and state; and the store of models.

    The exit status is 1 if an artifact is damaged.
    """
    from geonode.estimation.model_store import LARGEST_BYTES, ModelStore  # noqa: PLC0415
    from geonode.storage.inventory import inventory  # noqa: PLC0415

    found = inventory(folder)
    store = ModelStore.of_user()
    models = {entry.name: size for entry, size in store.entries().items()}
    if as_json:
        listed = [asdict(entry) | {"path": str(entry.path)} for entry in found]
        echo_json({"artifacts": listed, "store": {"folder": str(store.folder), "models": models}})
    else:
        tell("\n\n".join("\n".join(_described(entry)) for entry in found))
        sizes = f"{_sized(sum(models.values()))} of at most {_sized(LARGEST_BYTES)}"
        tell(f"\n{store.folder or 'no store'}: {len(models)} learned models, {sizes}")
    if damaged := [str(entry.path) for entry in found if entry.damage]:
        found_wrong(f"{len(damaged)} of {len(found)} artifacts are damaged: {', '.join(damaged)}")


def verify(folder: Folder = Path("data"), as_json: AsJson = False) -> None:
    """Read every byte of the artifacts, and report what is damaged or does not belong together.

    Checked are the checksums, and that every artifact was made from the others that are there. NaN
    and infinity are never written. The exit status is 1 if there are problems. Changed code,
    parameters and files are reported by dvc status.
    """
    from geonode.storage import inventory  # noqa: PLC0415

    paths = inventory.artifacts(folder)
    with bar("verifying", sum(map(inventory.size_of, paths))) as report:
        problems = list(inventory.verify(folder, report))
    if as_json:
        listed = [problem._asdict() | {"path": str(problem.path)} for problem in problems]
        echo_json({"artifacts": list(map(str, paths)), "problems": listed})
    else:
        for problem in problems:
            tell(problem.message)
    if problems:
        wrong = ", ".join(dict.fromkeys(str(problem.path) for problem in problems))
        found_wrong(f"problems of {wrong}: {len(problems)}")
    if not as_json:
        tell(f"all {len(paths)} artifacts are intact and belong together")


def _described(entry: "Entry") -> Iterator[str]:
    yield f"{entry.path}: {entry.kind}"
    if entry.damage:
        yield f"  damaged: {entry.damage}"
        return
    ratio = entry.bytes_in_memory / entry.bytes_on_disk
    yield (
        f"  intact; {_sized(entry.bytes_on_disk)} on disk, {_sized(entry.bytes_in_memory)} "
        f"uncompressed, ratio {ratio:.2f}"
    )
    if entry.dimensions:
        yield "  " + ", ".join(f"{name} {size}" for name, size in entry.dimensions.items())
    rows = [
        (
            f"  {array.name}",
            array.dtype,
            " ".join(map(str, array.shape)),
            " ".join(array.dims),
            array.units,
            array.long_name,
        )
        for array in entry.arrays
    ]
    yield from aligned(rows)


def _sized(count: int) -> str:
    """Size in bytes, kB, MB, GB or TB, powers of 1000."""
    number, unit = float(count), "B"
    for larger in ("kB", "MB", "GB", "TB"):
        if number < 1000:
            break
        number, unit = number / 1000, larger
    return f"{count} B" if unit == "B" else f"{number:.1f} {unit}"
