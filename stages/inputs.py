"""Inputs of a stage besides its artifacts: its code, and the parameters that decide its results.

`probe` writes them to a file for every stage, and the stage depends on that file. So DVC reruns a
stage if a module that it imports, directly or not, says something else, or if one of its parameters
has another value after the preset was applied. Comments and docstrings do not count, nor do
parameters that change no byte.
"""

import ast
import hashlib
import importlib
from dataclasses import dataclass, field
from pathlib import Path
from typing import NamedTuple

from geonode.config import Parameters
from geonode.storage.document import write_document
from stages.command import BLOCKS
from stages.paths import INPUTS, STAGES

WITHOUT_EFFECT = {"engine", "memory_mb", "preset"}
"""Keys of params.yaml that change no byte, or are applied already."""


def write_inputs(parameters: Parameters) -> None:
    """Write the inputs of every stage.

    Args:
        parameters: all parameters, with the preset applied.

    Raises:
        ArtifactError: a file cannot be written.
    """
    values = parameters.model_dump(mode="json", by_alias=True)
    code = SourceCode(Path(__file__).parents[1])
    for name in STAGES:
        importlib.import_module(f"stages.{name}")
        decisive = {key: values[key] for key in sorted(set(BLOCKS[name]) - WITHOUT_EFFECT)}
        content = {"code": code.digest(f"stages/{name}.py"), "parameters": decisive}
        write_document(INPUTS / f"{name}.json", content)


class _File(NamedTuple):
    """A source file: what it imports from the project, and what it means."""

    imports: tuple[str, ...]
    meaning: bytes


@dataclass(frozen=True)
class SourceCode:
    """Source files of the project, each read once.

    Attributes:
        root: folder of the packages `geonode` and `stages`.
    """

    root: Path
    _read: dict[str, _File] = field(default_factory=dict)

    def digest(self, file: str) -> str:
        """SHA-256 of a module and all that it imports from the project, directly or not.

        Data files beside the modules count too.

        Args:
            file: path of the module, relative to the root.
        """
        found: dict[str, bytes] = {}
        waiting = [file]
        while waiting:
            file = waiting.pop()
            if file not in found:
                found[file] = self._file(file).meaning
                found |= self._data_beside(file)
                waiting += self._file(file).imports
        digest = hashlib.sha256()
        for path in sorted(found):
            digest.update(path.encode() + b"\0" + found[path] + b"\0")
        return digest.hexdigest()

    def _file(self, file: str) -> _File:
        if file not in self._read:
            tree = ast.parse((self.root / file).read_text(encoding="utf-8"), file)
            self._read[file] = _File(self._imports(tree), _meaning(tree))
        return self._read[file]

    def _imports(self, tree: ast.Module) -> tuple[str, ...]:
        """Files of the project that are imported anywhere in a file."""
        modules = set()
        for node in ast.walk(tree):
            if isinstance(node, ast.Import):
                modules |= {alias.name for alias in node.names}
            elif isinstance(node, ast.ImportFrom) and node.module is not None:
                modules |= {node.module, *(f"{node.module}.{alias.name}" for alias in node.names)}
        paths = [module.replace(".", "/") for module in modules if _is_ours(module)]
        files = [file for path in paths for file in (f"{path}.py", f"{path}/__init__.py")]
        return tuple(file for file in sorted(files) if (self.root / file).is_file())

    def _data_beside(self, file: str) -> dict[str, bytes]:
        """Content of the data files in the folder of a module, by path."""
        return {
            path.relative_to(self.root).as_posix(): path.read_bytes()
            for path in (self.root / file).parent.iterdir()
            if path.is_file() and path.suffix not in (".py", ".md")
        }


def _is_ours(module: str) -> bool:
    """Whether a module belongs to the project; the package itself only hands names on."""
    return module.split(".", maxsplit=1)[0] in ("geonode", "stages") and module != "geonode"


def _meaning(tree: ast.Module) -> bytes:
    """A syntax tree as text, without docstrings, comments and line numbers."""
    for node in ast.walk(tree):
        if isinstance(node, ast.Module | ast.ClassDef | ast.FunctionDef) and ast.get_docstring(
            node, clean=False
        ):
            node.body = node.body[1:]
    return ast.dump(tree).encode()
