"""Inputs of a stage besides its artifacts: its code, and the parameters that decide its results.

`probe` writes them to a file for every stage, and the stage depends on that file. So DVC reruns a
stage if a module that it imports, directly or not, says something else, or if one of its parameters
has another value after the preset was applied. Comments and docstrings do not count, nor do
parameters that change no byte.
"""

import ast
import hashlib
import importlib
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, NamedTuple

from geonode.config import Parameters
from geonode.errors import CorruptArtifactError, MissingArtifactError
from geonode.storage.document import read_document, write_document
from stages.command import BLOCKS
from stages.paths import INPUTS, STAGES

CODE = INPUTS / "code.json"
"""Cache of the parsed source files, so that only those that change are parsed again."""

WITHOUT_EFFECT = {"engine", "memory_mb", "preset"}
"""Keys of params.yaml that change no byte, or are applied already."""


def write_inputs(parameters: Parameters) -> None:
    """Write the inputs of every stage.

    Args:
        parameters: all parameters, with the preset applied.

    Raises:
        ArtifactError: a file cannot be written.
    """
    code = SourceCode(Path(__file__).parents[1], _known())
    for name in STAGES:
        importlib.import_module(f"stages.{name}")  # which declares the blocks that it reads
        content = {
            "code": code.digest(f"stages/{name}.py"),
            "parameters": decisive(parameters, name),
        }
        write_document(INPUTS / f"{name}.json", content)
    write_document(CODE, code.read)


def decisive(parameters: Parameters, stage: str) -> dict[str, Any]:
    """Parameters that decide the results of a stage, by block."""
    values = parameters.model_dump(mode="json", by_alias=True)
    return {key: values[key] for key in sorted(set(BLOCKS[stage]) - WITHOUT_EFFECT)}


class SourceFile(NamedTuple):
    """A source file of the project.

    Attributes:
        checksum: SHA-256 of its bytes.
        meaning: SHA-256 of its syntax tree, without docstrings and line numbers.
        needs: files of the project that it imports, and data files beside it that it names.
    """

    checksum: str
    meaning: str
    needs: list[str]


@dataclass(frozen=True)
class SourceCode:
    """Source files of the project.

    Attributes:
        root: folder of the packages `geonode` and `stages`.
        known: what was read before, by path.
        read: what was read, or known, of the files that were needed.
    """

    root: Path
    known: dict[str, SourceFile] = field(default_factory=dict)
    read: dict[str, SourceFile] = field(default_factory=dict)

    def digest(self, file: str) -> str:
        """SHA-256 of a module and all that it imports from the project, directly or not.

        Args:
            file: path of the module, relative to the root.
        """
        found: set[str] = set()
        waiting = [file]
        while waiting:
            file = waiting.pop()
            if file not in found:
                found.add(file)
                waiting += self._file(file).needs
        meanings = (f"{path}\0{self.read[path].meaning}\0" for path in sorted(found))
        return hashlib.sha256("".join(meanings).encode()).hexdigest()

    def _file(self, file: str) -> SourceFile:
        if file not in self.read:
            content = (self.root / file).read_bytes()
            checksum, known = hashlib.sha256(content).hexdigest(), self.known.get(file)
            if known is None or known.checksum != checksum:
                known = self._parsed(file, content, checksum)
            self.read[file] = known
        return self.read[file]

    def _parsed(self, file: str, content: bytes, checksum: str) -> SourceFile:
        """Digest and needs of a file; data need nothing, and their bytes are the digest."""
        if not file.endswith(".py"):
            return SourceFile(checksum, checksum, [])
        tree = ast.parse(content, file)
        needs = sorted({*self._imports(tree), *self._data(file, tree)})
        meaning = hashlib.sha256(repr(_without_words(tree)).encode()).hexdigest()
        return SourceFile(checksum, meaning, needs)

    def _imports(self, tree: ast.Module) -> Iterator[str]:
        """Files of the project that are imported anywhere in a file."""
        modules = set()
        for node in ast.walk(tree):
            if isinstance(node, ast.Import):
                modules |= {alias.name for alias in node.names}
            elif isinstance(node, ast.ImportFrom) and node.module is not None:
                modules |= {node.module, *(f"{node.module}.{alias.name}" for alias in node.names)}
        for module in filter(_is_ours, modules):
            path = module.replace(".", "/")
            for file in (f"{path}.py", f"{path}/__init__.py"):
                if (self.root / file).is_file():
                    yield file

    def _data(self, file: str, tree: ast.Module) -> Iterator[str]:
        """Files beside a module that one of its strings names."""
        folder = Path(file).parent
        others = (path for path in (self.root / folder).iterdir() if path.suffix != ".py")
        beside = {path.name for path in others if path.is_file()}
        for node in ast.walk(tree):
            if isinstance(node, ast.Constant) and node.value in beside:
                yield (folder / node.value).as_posix()


def _known() -> dict[str, SourceFile]:
    """Cache of the last run; empty if it is lost, so that all files are read again."""
    try:
        return {path: SourceFile(*content) for path, content in read_document(CODE).items()}
    except (MissingArtifactError, CorruptArtifactError):
        return {}


def _is_ours(module: str) -> bool:
    """Whether a module belongs to the project; the package itself only hands names on."""
    return module.split(".", maxsplit=1)[0] in ("geonode", "stages") and module != "geonode"


def _without_words(part: Any) -> Any:
    """Syntax tree as nested lists, without docstrings and without what is empty.

    Versions of Python differ in what an empty field is.
    """
    if isinstance(part, list):
        return [_without_words(item) for item in part]
    if not isinstance(part, ast.AST):
        return part
    fields = dict(ast.iter_fields(part))
    words = (ast.Module, ast.ClassDef, ast.FunctionDef, ast.AsyncFunctionDef)
    if isinstance(part, words) and ast.get_docstring(part, clean=False) is not None:
        fields["body"] = part.body[1:]
    kept = [[name, _without_words(of)] for name, of in fields.items() if of not in (None, [])]
    return [type(part).__name__, *kept]
