"""Counts that say how easy the code is to change: lines, attributes, tuned numbers, private imports, crossings.

Run: python benchmarks/count_house.py [--src DIRECTORY] [--train DATA]
With --train it also trains on that data set (`comargin train DATA`) and counts the calls from package to package.
"""

from __future__ import annotations

import argparse
import ast
import contextlib
import io
import sys
import tempfile
from collections import Counter
from collections.abc import Iterator
from pathlib import Path
from types import FrameType

SRC = Path(__file__).resolve().parents[1] / "src" / "comargin"
SOLVERS = ("m3l", "structured", "rank", "lsg21", "svmplus", "inference", "core", "kernels", "problems", "solvers")
SVM_PLUS = ("svmplus/", "prml", "prbr")
RESUME = (
    *("core/memory.py", "training/_folder.py", "training/identity.py", "persistence/_starts.py"),
    *("training/_checkpoint.py", "training/_kept_fits.py", "training/_folder_memory.py", "training/_identity.py"),
    *("persistence/_states.py", "estimators/_search_memory.py", "estimators/_search_state.py"),
)


def number_of(node: ast.expr | None) -> bool:
    """Whether an expression is a number, or made of numbers only."""
    if node is None:
        return False
    has_number = any(isinstance(n, ast.Constant) and type(n.value) in (int, float) for n in ast.walk(node))
    plain = (ast.Constant, ast.Tuple, ast.UnaryOp, ast.BinOp, ast.operator, ast.unaryop, ast.expr_context)
    return has_number and all(isinstance(n, plain) for n in ast.walk(node))


def tuned_numbers(tree: ast.Module) -> int:
    """Module-level numbers, and numbers in the fields of policies."""
    count = 0
    for node in tree.body:
        if isinstance(node, ast.Assign) and number_of(node.value):
            target = node.targets[0]
            count += len(target.elts) if isinstance(target, ast.Tuple) else 1
        elif isinstance(node, ast.AnnAssign) and number_of(node.value):
            count += 1
        elif isinstance(node, ast.ClassDef) and node.name.endswith("Policy"):
            count += sum(isinstance(field, ast.AnnAssign) and number_of(field.value) for field in node.body)
    return count


def attributes(node: ast.ClassDef) -> int:
    """Names that the methods of a class set on ``self``, but for parameters that __init__ of an estimator stores."""
    found, stored = set(), set()
    for method in node.body:
        if not isinstance(method, ast.FunctionDef):
            continue
        parameters = {arg.arg for arg in (*method.args.args, *method.args.kwonlyargs)}
        for inner in ast.walk(method):
            is_set = isinstance(inner, ast.Attribute) and isinstance(inner.ctx, ast.Store)
            if is_set and ast.unparse(inner.value) == "self":
                found.add(inner.attr)
                if method.name == "__init__" and inner.attr in parameters:
                    stored.add(inner.attr)
    is_estimator = any(part in ast.unparse(base) for base in node.bases for part in ("Classifier", "BaseEstimator"))
    return len(found - stored) if is_estimator else len(found)


def private_imports(path: Path, tree: ast.Module, src: Path) -> Iterator[str]:
    """Private modules and names of other packages that a file imports."""
    package = path.relative_to(src).parts[:-1]
    for node in ast.walk(tree):
        if isinstance(node, ast.ImportFrom) and node.level:
            module = (*package[: len(package) - node.level + 1], *(node.module or "").split("."))
            for name in (alias.name for alias in node.names):
                parts = [part for part in (*module, name) if part]
                private = [part.startswith("_") and not part.startswith("__") for part in parts]
                if any(private) and parts[: max(len(package), 1)][:1] != list(package)[:1]:
                    yield f"{path.relative_to(src)}: {'.'.join(parts)}"


def crossings(src: Path, data: str) -> tuple[int, int, int, int]:
    """Calls of functions of another package while `comargin train DATA` runs, each once for a calling package.

    Returns their number; how many are neither to nor from what all packages share (core, or private modules beside the
    packages); how many of these are made by functions; and the number of packages. The others are made by modules that
    are being imported, which happens once in a process and is no step of the command: the table in models.py makes one
    estimator of every class, whatever is trained.
    """
    sys.path.insert(0, str(src.parent))
    from comargin.cli import main

    seen: Counter[tuple[str, str]] = Counter()
    packages: set[str] = set()
    by_functions: set[tuple[str, str]] = set()

    def place(frame: FrameType | None) -> tuple[str, str] | None:
        if frame is None or not frame.f_code.co_filename.startswith(str(src)):
            return None
        parts = Path(frame.f_code.co_filename).relative_to(src).parts
        return parts[0].removesuffix(".py"), f"{'/'.join(parts)}:{frame.f_code.co_qualname}"

    def profile(frame: FrameType, event: str, arg: object) -> None:
        if event != "call" or "<" in frame.f_code.co_name:
            return
        callee = place(frame)
        caller_frame = frame.f_back
        while caller_frame is not None and place(caller_frame) is None:  # past other libraries
            caller_frame = caller_frame.f_back
        caller = place(caller_frame)
        if callee is not None and caller is not None and callee[0] != caller[0]:
            packages.update((callee[0], caller[0]))
            seen[caller[0], callee[1]] += 1
            if caller_frame.f_code.co_name != "<module>":
                by_functions.add((caller[0], callee[1]))

    with tempfile.TemporaryDirectory() as folder, contextlib.redirect_stdout(io.StringIO()):
        sys.argv = ["comargin", "train", data, "-o", f"{folder}/model.cmg", "--jobs", "1"]
        sys.setprofile(profile)
        try:
            main()
        except SystemExit:
            pass
        finally:
            sys.setprofile(None)
    for (caller, callee), count in sorted(seen.items()):
        at_import = "" if (caller, callee) in by_functions else ", at import"
        print(f"  {caller} -> {callee} ({count}{at_import})", file=sys.stderr)
    above = {pair for pair in seen if not any(name.startswith(("core", "_")) for name in pair)}
    return len(seen), len(above), len(above & by_functions), len(packages)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--src", type=Path, default=SRC)
    parser.add_argument("--train")
    arguments = parser.parse_args()
    src = arguments.src.resolve()
    trees = {path: ast.parse(path.read_text(encoding="utf-8")) for path in sorted(src.rglob("*.py"))}
    lines = {str(path.relative_to(src)): len(path.read_text(encoding="utf-8").splitlines()) for path in trees}
    classes = {
        f"{path.relative_to(src)}:{node.name}": attributes(node)
        for path, tree in trees.items()
        for node in ast.walk(tree)
        if isinstance(node, ast.ClassDef)
    }
    largest = max(classes, key=classes.__getitem__)
    numbers = sum(tuned_numbers(tree) for path, tree in trees.items() if path.relative_to(src).parts[0] in SOLVERS)
    private = [found for path, tree in trees.items() for found in private_imports(path, tree, src)]
    rows = {
        "lines of src": sum(lines.values()),
        "SVM+ (problem, loops, solvers, classifiers)": sum(
            n for name, n in lines.items() if any(part in name for part in SVM_PLUS)
        ),
        "resume (training, persistence, search)": sum(n for name, n in lines.items() if name in RESUME),
        f"most attributes set in one class ({largest})": classes[largest],
        "tuned numbers in solvers (module level and policies)": numbers,
        "private imports across packages": len(private),
    }
    if arguments.train:
        n_crossings, n_above, n_by_functions, n_packages = crossings(src, arguments.train)
        rows[f"crossings of `comargin train {arguments.train}`, over {n_packages} packages"] = n_crossings
        rows["of them between packages above core"] = n_above
        rows["of these without calls at import"] = n_by_functions
    for what, value in rows.items():
        print(f"{value:>6}  {what}")


if __name__ == "__main__":
    main()
