"""Check of the destination of a command before anything is computed."""

from pathlib import Path

from geonode.errors import ParameterError


def require_destination(
    option: str, path: Path | None, *suffixes: str, never: tuple[Path, ...], overwrite: bool
) -> None:
    """Refuse a file that cannot or must not be written.

    Args:
        option: name of the option.
        path: the file; None: nothing is to be written.
        suffixes: permitted suffixes of its name.
        never: files that are read, or folders of such files.
        overwrite: whether an existing file may be replaced.

    Raises:
        ParameterError: the suffix is another, the folder is absent, or the file is read or exists.
    """
    if path is None:
        return
    above = {path.resolve(), *path.resolve().parents}
    read = [one for one in never if one.resolve() in above]
    if path.suffix.lower() not in suffixes:
        expected = f"a name that ends in {' or '.join(suffixes)}"
    elif not path.parent.is_dir():
        expected = f"a file in a folder that exists; make {path.parent} first"
    elif path.exists() and path.is_dir() != (path.suffix.lower() == ".zarr"):
        expected = "a file, not a folder" if path.is_dir() else "a folder, not a file"
    elif read:
        expected = f"another place than {read[0]}, which is read here"
    elif not overwrite and (path.exists() or path.is_symlink()):
        expected = "a name that is not taken; --overwrite replaces the file"
    else:
        return
    raise ParameterError("options", option, str(path), expected)
