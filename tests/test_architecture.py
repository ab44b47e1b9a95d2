"""The rules of the code base, read from its syntax trees."""

import ast
import importlib
import inspect
import json
import re
import subprocess
import sys
from pathlib import Path

import pytest
from sklearn.base import BaseEstimator

from comargin.core.parameters import DeclaredParameters

SRC = Path(__file__).resolve().parents[1] / "src" / "comargin"
FILES = sorted(SRC.rglob("*.py"))
TREES = {path: ast.parse(path.read_text(encoding="utf-8")) for path in FILES}
STDLIB = set(sys.stdlib_module_names)

# The import law, from the bottom up: a package imports from the floors below its own, and from itself.
FLOORS = (
    {"core"},
    {"graphs", "inference", "metrics", "model_selection"},
    {"m3l", "structured", "rank", "lsg21", "svmplus", "baselines"},
    {"decisions", "search"},
    {"models"},
    {"data", "persistence", "training", "comparison", "report"},
    {"cli"},
)
# On one floor: a paper may use the public solver of M3L, and the workbench is ordered too.
BESIDE = {
    "structured": {"m3l"},
    "svmplus": {"m3l"},
    "search": {"decisions", "models"},  # `AutoClassifier` looks its candidates up, when it is fitted
    "persistence": {"data"},
    "report": {"data"},
    "training": {"data", "persistence"},
    "comparison": {"data", "report", "training"},
}
# The doors of the house: they import what they show.
DOORS = {"__init__", "__main__"}
# Packages from elsewhere, by package of ours; what every floor from the papers upward may use is in ANYWHERE.
ANYWHERE = {"numpy", "scipy"}
THEIRS = {
    "core": {"numba", "sklearn", "joblib", "threadpoolctl", "rich"},
    "graphs": {"networkx"},
    "metrics": {"sklearn"},
    "model_selection": {"sklearn"},
    "m3l": {"sklearn"},
    "structured": {"sklearn"},
    "rank": {"sklearn"},
    "lsg21": {"sklearn"},
    "svmplus": {"sklearn"},
    "baselines": {"sklearn"},
    "decisions": {"sklearn", "joblib"},
    "search": {"sklearn", "joblib"},
    "models": {"sklearn"},
    "data": {"sklearn", "pyarrow"},
    "persistence": {"sklearn"},
    "training": {"sklearn"},
    "report": {"plotly", "networkx"},
    "comparison": {"sklearn", "joblib", "threadpoolctl", "pyarrow", "plotly"},
    "cli": {"sklearn", "typer", "rich", "networkx"},
}
# Only inside functions: optional packages, and those that would make a light import heavy.
LAZY_ONLY = {
    "core": {"rich"},
    "data": {"sklearn", "pyarrow"},
    "graphs": {"networkx"},
    "report": {"plotly", "networkx"},
    "comparison": {"pyarrow", "plotly"},
}
# Compiled code lies in these files and in every ``_loops*.py``; tests/conftest.py keys Numba's cache on them.
CORE_LOOPS = {"core/compiled.py", "core/rows.py", "core/random_numbers.py", "core/cholesky.py"}
MAX_LINES = 450


def name_of(path):
    return str(path.relative_to(SRC))


def layer_of(path):
    return path.relative_to(SRC).parts[0].removesuffix(".py")


def imports(path):
    """Yield (module path inside the package or None, third-party package or None, node, not done at import time)."""
    tree = TREES[path]
    package = path.relative_to(SRC.parent).with_suffix("").parts
    package = package[:-1]
    lazy = {
        id(node)
        for block in ast.walk(tree)
        if isinstance(block, ast.FunctionDef)
        or (isinstance(block, ast.If) and ast.unparse(block.test) == "TYPE_CHECKING")
        for node in ast.walk(block)
    }
    for node in ast.walk(tree):
        if isinstance(node, ast.Import):
            for alias in node.names:
                yield None, alias.name.split(".")[0], node, id(node) in lazy
        elif isinstance(node, ast.ImportFrom) and node.level:
            base = package[: len(package) - (node.level - 1)] + tuple((node.module or "").split("."))
            base = tuple(part for part in base if part)
            if len(base) == 1:  # from . import x, at the root
                for alias in node.names:
                    inside = (SRC / alias.name).is_dir() or (SRC / f"{alias.name}.py").exists()
                    target = alias.name if inside else "__init__"
                    yield (target,), None, node, id(node) in lazy
            else:
                yield base[1:], None, node, id(node) in lazy
        elif isinstance(node, ast.ImportFrom):
            yield None, node.module.split(".")[0], node, id(node) in lazy


def may_import(layer):
    """Packages of ours that a package may import."""
    floor = next(k for k, names in enumerate(FLOORS) if layer in names)
    return {layer, "__init__"} | set().union(*FLOORS[:floor]) | BESIDE.get(layer, set())


def has_loops(path):
    return path.name.startswith("_loops") or name_of(path) in CORE_LOOPS


@pytest.mark.parametrize("path", sorted(SRC.glob("*/__init__.py")), ids=name_of)
def test_the_map_of_a_package_names_its_files(path):
    named = set(re.findall(r"\b[\w/]+\.py\b", ast.get_docstring(TREES[path])))
    own = {other.name for other in path.parent.glob("*.py")} - {"__init__.py"}
    assert not [name for name in named - own if not (SRC / name).exists()]
    if named & own:  # a map, which is complete
        assert named >= own


def test_packages_that_have_a_map():
    mapped = {layer_of(path) for path in SRC.glob("*/__init__.py") if ".py" in ast.get_docstring(TREES[path])}
    papers = {"m3l", "structured", "rank", "lsg21", "svmplus"}
    assert mapped >= papers | {"inference", "metrics", "data", "persistence", "report", "cli"}


@pytest.mark.parametrize("path", FILES, ids=name_of)
def test_import_law(path):
    layer = layer_of(path)
    if layer in DOORS:
        return
    ours, theirs = may_import(layer), ANYWHERE | THEIRS.get(layer, set())
    for inside, outside, node, lazy in imports(path):
        where = f"{name_of(path)}:{node.lineno}"
        if inside is not None:
            assert inside[0] in ours, f"{where}: {layer} must not import {'.'.join(inside)}"
            if inside[0] not in (layer, "__init__"):
                private = [part for part in (*inside, *(alias.name for alias in node.names)) if part.startswith("_")]
                assert not private, f"{where}: {private} is private to {inside[0]}"
        elif outside not in STDLIB:
            assert outside != "comargin", f"{where}: import our own modules relatively"
            assert outside in theirs, f"{where}: {layer} must not import {outside}"
            assert outside != "numba" or has_loops(path), f"{where}: compiled code belongs to a _loops file"
            if outside in LAZY_ONLY.get(layer, ()):
                assert lazy, f"{where}: {outside} is imported inside functions only in {layer}"


@pytest.mark.parametrize("path", FILES, ids=name_of)
def test_private_scikit_learn_stays_in_one_file(path):
    if name_of(path) == "core/estimator.py":
        return
    for node in ast.walk(TREES[path]):
        if isinstance(node, ast.ImportFrom) and (node.module or "").startswith("sklearn"):
            parts = [*node.module.split("."), *(alias.name for alias in node.names)]
            private = [part for part in parts if part.startswith("_")]
            assert not private, f"{name_of(path)}:{node.lineno}: private scikit-learn name {private}"


def test_validate_data_has_one_caller():
    callers = [name_of(p) for p in FILES if "validate_data(" in p.read_text()]
    assert callers == ["core/validation.py"]


@pytest.mark.parametrize("path", FILES, ids=name_of)
def test_compiled_code_uses_the_one_decorator(path):
    for node in ast.walk(TREES[path]):
        if isinstance(node, ast.ImportFrom) and node.module == "numba":
            names = {alias.name for alias in node.names}
            allowed = {"njit", "types"} if path.name == "compiled.py" else set()
            assert names <= allowed, f"{name_of(path)}: from numba import {names - allowed}"
        if isinstance(node, ast.keyword) and node.arg in {"parallel", "fastmath", "cache", "nogil"} and has_loops(path):
            assert path.name == "compiled.py", (
                f"{name_of(path)}:{node.value.lineno}: {node.arg}= belongs to compiled.py"
            )
        if isinstance(node, ast.FunctionDef):
            for decorator in node.decorator_list:
                text = ast.unparse(decorator)
                if has_loops(path):
                    overload = re.fullmatch(r"overload\(row_\w+, jit_options=_FAST\)", text)
                    allowed = {"compiled", "inlined", "property", "cached_property", "contextmanager"}
                    known = text in allowed or overload
                    assert known, f"{name_of(path)}:{node.lineno}: @{text}"
                else:
                    assert text not in {"compiled", "inlined"}, (
                        f"{name_of(path)}:{node.lineno}: compiled code belongs to a _loops file"
                    )
    if path.name == "compiled.py":
        assert path.read_text().count("njit(nogil=True, **options)") == 1


def test_fastmath_keeps_nan_and_infinity():
    from comargin.core import rows

    assert rows._FAST == {"fastmath": {"reassoc", "contract"}}


@pytest.mark.parametrize("path", FILES, ids=name_of)
def test_no_print_and_not_too_long(path):
    calls = [node for node in ast.walk(TREES[path]) if isinstance(node, ast.Call)]
    prints = [call.lineno for call in calls if isinstance(call.func, ast.Name) and call.func.id == "print"]
    assert not prints, f"{name_of(path)}: print in lines {prints}"
    n_lines = len(path.read_text(encoding="utf-8").splitlines())
    assert n_lines <= MAX_LINES, f"{name_of(path)} has {n_lines} lines: split it by meaning"


def documented_parameters(docstring):
    """Names of the Parameters section of a numpydoc docstring, or None when there is none."""
    lines = inspect.cleandoc(docstring).splitlines()
    for k in range(len(lines) - 1):
        if lines[k].strip() == "Parameters" and set(lines[k + 1].strip()) == {"-"}:
            break
    else:
        return None
    names = []
    for i in range(k + 2, len(lines)):
        line = lines[i]
        if i + 1 < len(lines) and re.fullmatch(r"-{3,}", lines[i + 1].strip()):
            break
        if line and not line[0].isspace():
            # numpydoc says "name : type"; kernels say "name : type, meaning" on one line
            names += [name.strip().lstrip("*") for name in line.split(" : ")[0].split(",")]
    return names


def signature_names(node, *, is_method):
    """Names of the arguments, without the ``self`` or ``cls`` of a method."""
    args = node.args
    every = [*args.posonlyargs, *args.args, *args.kwonlyargs]
    every += [extra for extra in (args.vararg, args.kwarg) if extra is not None]
    bound = is_method and not any("staticmethod" in ast.unparse(d) for d in node.decorator_list)
    return [arg.arg for arg in every][bound:]


def finished_docstring(path, node):
    """The docstring of a class with what `complete_docstring` filled in; as written where it fills in nothing."""
    written = ast.get_docstring(node)
    if written is None or not re.search(r"^\s*\{\w+\}", written, re.MULTILINE):
        return written
    module = importlib.import_module(".".join(path.relative_to(SRC.parent).with_suffix("").parts))
    return inspect.cleandoc(vars(module)[node.name].__doc__)


def documented_functions():
    """(id, names in the signature, docstring) of every function and class with a Parameters section."""
    for path, tree in TREES.items():
        methods = {m for node in ast.walk(tree) if isinstance(node, ast.ClassDef) for m in node.body}
        for node in ast.walk(tree):
            if isinstance(node, ast.FunctionDef):
                docstring, signature = ast.get_docstring(node), node
            elif isinstance(node, ast.ClassDef):
                docstring = finished_docstring(path, node)
                signature = next(
                    (m for m in node.body if isinstance(m, ast.FunctionDef) and m.name == "__init__"), None
                )
                if signature is None and any("dataclass" in ast.unparse(d) for d in node.decorator_list):
                    signature = [m.target.id for m in node.body if isinstance(m, ast.AnnAssign)]
            else:
                continue
            if docstring and signature is not None and documented_parameters(docstring) is not None:
                is_list = isinstance(signature, list)
                names = signature if is_list else signature_names(signature, is_method=signature in methods)
                yield pytest.param(names, docstring, id=f"{name_of(path)}::{node.name}")


@pytest.mark.parametrize(("signature", "docstring"), list(documented_functions()))
def test_documented_arguments_are_the_signature(signature, docstring):
    assert documented_parameters(docstring) == signature


def public_objects():
    for module_name in (
        "",
        ".comparison",
        ".data",
        ".metrics",
        ".model_selection",
        ".decisions",
        ".search",
        ".graphs",
        ".inference",
        ".persistence",
        ".report",
        ".training",
    ):
        module = importlib.import_module(f"comargin{module_name}")
        for name in module.__all__:
            thing = getattr(module, name)
            if inspect.isclass(thing) or inspect.isfunction(thing):
                yield pytest.param(thing, id=f"comargin{module_name}.{name}")


@pytest.mark.parametrize("thing", list(public_objects()))
def test_public_names_are_documented(thing):
    docstring = inspect.getdoc(thing)
    assert docstring
    assert not re.search(r"^\s*\{\w+\}", docstring, re.MULTILINE), "a placeholder that nothing has filled in"
    if inspect.isfunction(thing) and inspect.signature(thing).parameters:
        assert documented_parameters(docstring) is not None, "no Parameters section"
    is_record = (inspect.isclass(thing) and not issubclass(thing, BaseEstimator)) and (
        hasattr(thing, "__dataclass_fields__") or issubclass(thing, tuple | Exception)
    )
    if not is_record and not inspect.isabstract(thing):
        assert "Examples" in docstring, "no Examples section"


@pytest.mark.parametrize(
    "thing", [p for p in public_objects() if DeclaredParameters in getattr(p.values[0], "__mro__", ())]
)
def test_documented_parameters_are_those_declared(thing):
    documented, signature = documented_parameters(inspect.getdoc(thing)), inspect.signature(thing).parameters
    positional = [p.name for p in signature.values() if p.kind is not p.KEYWORD_ONLY]
    assert documented[: len(positional)] == positional
    assert sorted(documented) == sorted(signature)  # keywords are described in the order of their meaning


@pytest.mark.parametrize("thing", list(public_objects()))
def test_documented_defaults_are_those_of_the_signature(thing):
    if documented_parameters(inspect.getdoc(thing)) is None or not (
        inspect.isfunction(thing) or "__init__" in vars(thing)
    ):
        return
    signature = inspect.signature(thing)
    for name, default in re.findall(r"^(\w+) : .*default=(.+)$", inspect.getdoc(thing), re.MULTILINE):
        assert eval(default) == signature.parameters[name].default, name


def loaded_modules(code):
    script = f"import sys\n{code}\nimport json; print(json.dumps(sorted(sys.modules)))"
    done = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, check=True)
    return {name.split(".")[0] for name in json.loads(done.stdout.splitlines()[-1])}


def test_import_is_light():
    loaded = loaded_modules("import comargin; dir(comargin)")
    assert not loaded & {"numba", "sklearn", "scipy", "numpy", "pandas", "typer", "rich"}


def test_help_is_light():
    code = "import comargin.cli\nsys.argv = ['comargin', '--help']\ntry: comargin.cli.main()\nexcept SystemExit: pass"
    assert not loaded_modules(code) & {"numba", "sklearn", "scipy", "numpy", "pandas"}


def test_lazy_names_are_all_public_names():
    import comargin

    assert sorted(comargin.__all__) == dir(comargin)
    for name in comargin.__all__:
        assert getattr(comargin, name) is not None
    with pytest.raises(AttributeError, match="no attribute 'nothing'"):
        _ = comargin.nothing


def test_version_is_the_packages():
    from importlib.metadata import version

    import comargin

    assert comargin.__version__ == version("comargin")
