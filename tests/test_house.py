"""Rules that no linter knows: shapes, sizes, and what the pipeline declares."""

import ast
import subprocess
import sys
from functools import cache
from pathlib import Path

import pytest
from grimp import build_graph

from geonode.config import PRESETS
from geonode.parameters_file import parse_yaml

ROOT = Path(__file__).parents[1]
LONGEST_FUNCTION, LONGEST_FILE = 80, 500  # lines


def files(*folders):
    found = (path for folder in folders for path in sorted((ROOT / folder).rglob("*.py")))
    return [path.relative_to(ROOT).as_posix() for path in found]


@cache
def tree(file):
    return ast.parse((ROOT / file).read_text(encoding="utf-8"), file)


def functions(file):
    return [node for node in ast.walk(tree(file)) if isinstance(node, ast.FunctionDef)]


def test_functions_fit_on_a_screen_and_files_are_short():
    long = []
    for file in files("geonode", "stages", "research"):
        sizes = [(f.name, f.end_lineno - f.lineno + 1, LONGEST_FUNCTION) for f in functions(file)]
        sizes.append(("", len((ROOT / file).read_text("utf-8").splitlines()), LONGEST_FILE))
        long += [f"{file} {name}: {size} lines" for name, size, most in sizes if size > most]
    assert not long


SCRIPTS = [path.relative_to(ROOT).as_posix() for path in (ROOT / "stages").glob("*.py")]
GROUND = [f"geonode/{name}.py" for name in ("cli", "config", "errors", "progress", "terminal")]
WITHOUT = {
    "what needs no tensors": (
        [*files("geonode/reading", "geonode/spectra", "geonode/commands"), *SCRIPTS, *GROUND],
        {"torch", "altair", "sklearn", "scipy"},
    ),
    "estimates by a file": (
        ["geonode/calibration/saved.py", "geonode/calibration/results.py"],
        {"altair", "sklearn", "pandas", "scipy.stats"},
    ),
}


@pytest.mark.parametrize(("chosen", "absent"), WITHOUT.values(), ids=WITHOUT)
def test_what_must_start_quickly_imports_nothing_slow(chosen, absent):
    modules = [file.removesuffix(".py").replace("/", ".") for file in chosen]
    code = f"import sys, {', '.join(modules)}\nprint(sorted({absent} & set(sys.modules)))"
    run = subprocess.run(
        [sys.executable, "-c", code], cwd=ROOT, capture_output=True, text=True, check=True
    )
    assert run.stdout.strip() == "[]"


# shapes


def arrays_without_shape(annotation):
    """Nodes of an annotation that are an array type and not the first argument of a shape."""
    if isinstance(annotation, ast.Constant) and isinstance(annotation.value, str):
        return
    if isinstance(annotation, ast.Subscript) and isinstance(annotation.slice, ast.Tuple):
        first, *rest = annotation.slice.elts
        is_shape = len(rest) == 1 and isinstance(rest[0], ast.Constant)
        if is_shape and isinstance(rest[0].value, str) and ast.unparse(first) in ARRAYS:
            return
    if isinstance(annotation, ast.Name | ast.Attribute):
        if ast.unparse(annotation) in ARRAYS:
            yield annotation
        return
    for child in ast.iter_child_nodes(annotation):
        yield from arrays_without_shape(child)


ARRAYS = {"Tensor", "torch.Tensor", "np.ndarray"}


def public_functions(node, public=True):
    """Functions and methods that a user of a module may call; not what is defined inside them."""
    for child in ast.iter_child_nodes(node):
        named = isinstance(child, ast.FunctionDef | ast.ClassDef)
        shown = public and named and (not child.name.startswith("_") or child.name.endswith("__"))
        if isinstance(child, ast.ClassDef):
            yield from public_functions(child, shown)
        elif isinstance(child, ast.FunctionDef) and shown:
            yield child


def test_arrays_of_public_functions_have_shapes():
    bare = []
    for file in files("geonode"):
        for function in public_functions(tree(file)):
            arguments = function.args
            every = [*arguments.posonlyargs, *arguments.args, *arguments.kwonlyargs]
            every += [extra for extra in (arguments.vararg, arguments.kwarg) if extra]
            for annotation in [function.returns, *(argument.annotation for argument in every)]:
                if annotation is not None and any(arrays_without_shape(annotation)):
                    bare.append(f"{file}:{function.lineno}: {ast.unparse(annotation)}")
    assert not bare


# the pipeline

PIPELINE = parse_yaml((ROOT / "dvc.yaml").read_text(encoding="utf-8"))["stages"]
PARAMETERS = parse_yaml((ROOT / "params.yaml").read_text(encoding="utf-8"))
WITHOUT_EFFECT = {"engine", "memory_mb"}  # parameters that change no byte of a result
ONLY_SHOWN = {f"geonode/{name}.py" for name in ("errors", "progress", "terminal", "usage")}
OF_PRESETS = {f"geonode/{name}.py" for name in ("config", "parameters_file")}
OF_EVERY_STAGE = {f"stages/{name}.py" for name in ("__init__", "command", "paths")}


@cache
def graph():
    return build_graph(
        "geonode", "stages", "research", exclude_type_checking_imports=True, cache_dir=None
    )


@pytest.mark.parametrize("name", PIPELINE)
def test_stages_explain_themselves_and_depend_on_their_script(name):
    declared = PIPELINE[name]
    assert declared.get("desc")
    assert declared["cmd"] == f"python -m stages.{name}"
    assert f"stages/{name}.py" in declared["deps"]


@pytest.mark.parametrize("name", PIPELINE)
def test_stages_depend_on_every_room_and_file_that_they_import(name):
    imported = graph().find_upstream_modules(f"stages.{name}")
    parts = {"/".join(module.split(".")[:2]) for module in imported if "." in module}
    code = {part if (ROOT / part).is_dir() else f"{part}.py" for part in parts}
    code -= ONLY_SHOWN | OF_EVERY_STAGE
    if "preset" not in PIPELINE[name].get("params", ()):
        code -= OF_PRESETS
    declared = {path for path in PIPELINE[name]["deps"] if path.startswith(("geonode", "stages"))}
    assert declared == code | {f"stages/{name}.py"}


def parameters_read(name):
    """Keys of params.yaml that the script of a stage reads: `metric`, `spectra.source`."""
    for node in ast.walk(tree(f"stages/{name}.py")):
        if isinstance(node, ast.Attribute) and ast.unparse(node).startswith("parameters."):
            _, block, *keys = ast.unparse(node).split(".")
            known = keys[:1] if isinstance(PARAMETERS[block], dict) else []
            yield ".".join([block, *(key for key in known if key in PARAMETERS[block])])


def is_within(key, other):
    return f"{key}.".startswith(f"{other}.")


@pytest.mark.parametrize("name", PIPELINE)
def test_stages_depend_on_the_parameters_that_they_read(name):
    read = {key for key in parameters_read(name) if key.split(".")[0] not in WITHOUT_EFFECT}
    # A block that is read by its keys alone is no block that is read.
    read -= {key for key in read if any(other != key and is_within(other, key) for other in read)}
    declared = set(PIPELINE[name].get("params", ()))
    of_preset = {key for values in PRESETS.values() for key in values}
    preset = any(is_within(a, b) or is_within(b, a) for a in of_preset for b in declared)
    assert ("preset" in declared) == preset
    declared -= {"preset"}
    assert all(any(is_within(key, other) for other in declared) for key in read)
    assert all(any(is_within(key, other) for key in read) for other in declared)


def test_every_script_is_a_stage():
    assert set(SCRIPTS) - OF_EVERY_STAGE == {f"stages/{name}.py" for name in PIPELINE}


def test_every_parameter_is_one_of_a_stage():
    declared = {key.split(".")[0] for stage in PIPELINE.values() for key in stage.get("params", ())}
    assert declared | WITHOUT_EFFECT >= set(PARAMETERS) >= declared
