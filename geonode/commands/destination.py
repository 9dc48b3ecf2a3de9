"""Where a command writes: found to be possible before anything is computed."""

from pathlib import Path

from geonode.errors import ParameterError


def require_destination(option: str, path: Path | None, *suffixes: str, never: Path) -> None:
    """Refuse a file that could not be written, or that must not be.

    Args:
        option: that names the file.
        path: the file; None: nothing is to be written.
        suffixes: what its name may end in.
        never: a file that is read, or a folder of such files.

    Raises:
        ParameterError: the name ends otherwise, the folder is absent, or the file is one that is
            read.
    """
    if path is None:
        return
    if path.suffix.lower() not in suffixes:
        expected = f"a name that ends in {' or '.join(suffixes)}"
    elif not path.parent.is_dir():
        expected = f"a file in a folder that exists; make {path.parent} first"
    elif path.exists() and path.is_dir() != (path.suffix.lower() == ".zarr"):
        expected = "a file, not a folder" if path.is_dir() else "a folder, not a file"
    elif never.resolve() in (path.resolve(), *path.resolve().parents):
        expected = f"another place than {never}, which is read here"
    else:
        return
    raise ParameterError("options", option, str(path), expected)
