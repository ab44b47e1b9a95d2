"""The guide holds together: links, code, names, measures, pictures; and it builds, where Sphinx is installed."""

import ast
import contextlib
import importlib
import importlib.util
import io
import re
import runpy
import subprocess
import sys
import types
import xml.etree.ElementTree as ElementTree
from pathlib import Path

import numpy as np
import pytest

ROOT = Path(__file__).resolve().parents[1]
DOCS = ROOT / "docs"
PAGES = {str(path.relative_to(DOCS).with_suffix("")): path.read_text(encoding="utf-8") for path in DOCS.rglob("*.md")}
RUN_ELSEWHERE = {"model_files": "tests/persistence/test_model_files_page.py"}

_BLOCKS = re.compile(r"```(\w+)\n(.*?)```", flags=re.DOTALL)


def without_code(text):
    return re.sub(r"`[^`\n]+`", "", _BLOCKS.sub("", text))


def constants_of(script):
    """Literal constants of a script that cannot be imported here: it needs Sphinx."""
    found = {}
    for node in ast.parse(script.read_text(encoding="utf-8")).body:
        if isinstance(node, ast.Assign) and isinstance(node.targets[0], ast.Name):
            with contextlib.suppress(ValueError):
                found[node.targets[0].id] = ast.literal_eval(node.value)
    return found


CONF = constants_of(DOCS / "conf.py")


# -- Links -------------------------------------------------------------------------------------------------------------


def anchors(text):
    """What GitHub and the site make of the headings of a page."""
    headings = re.findall(r"^#+ (.+)$", _BLOCKS.sub("", text), flags=re.MULTILINE)
    return {re.sub(r"[^\w\- ]", "", heading.lower()).replace(" ", "-") for heading in headings}


@pytest.mark.parametrize("page", [*sorted(PAGES), "../README"])
def test_links_lead_somewhere(page):
    path = (DOCS / f"{page}.md").resolve()
    text = path.read_text(encoding="utf-8")
    for target in re.findall(r"\]\(([^)\s]+)\)", without_code(text)):
        if target.startswith("https://"):
            continue
        name, _, anchor = target.partition("#")
        there = (path.parent / name).resolve() if name else path
        assert there.exists(), target
        assert not anchor or anchor in anchors(there.read_text(encoding="utf-8")), target


def test_every_page_is_in_the_navigation():
    listed = [re.fullmatch(r".* <(.*)>", entry)[1] for entries in CONF["NAVIGATION"].values() for entry in entries]
    listed += [f"reference/{page}" for page in CONF["REFERENCE"]]
    assert sorted([*listed, "index"]) == sorted(PAGES)


# -- Code --------------------------------------------------------------------------------------------------------------

# The same code on less: (in the page, in the test).
SMALLER = {
    "compare": [
        ('["emotions", "flags", "digits"]', '[make_correlated(90, seed=s, name=f"set {s}") for s in range(3)]'),
        ('["m3l", "rank-cvm", "cgm", "ovr", "chain", "forest", "knn"]', '["ovr", "knn", "ovr-svm"]'),
        ("folds=5", "folds=2, tune=False"),
        ("n_jobs=2", "n_jobs=1"),
    ],
}


def prepare_formats(names, folder, monkeypatch):
    """A file of texts and something that scores them."""
    (folder / "new.csv").write_text("number,body\n7,sea and sky\n8,the city\n", encoding="utf-8")
    names["label_names"] = ["sea", "city", "sky", "night"]
    names["model"] = types.SimpleNamespace(decision_function=lambda X: np.tile([1.0, -1.0, 0.5, -0.5], (len(X), 1)))


def prepare_compare(names, folder, monkeypatch):
    """Three small sets; and the model that the page registers is known to this test only."""
    from comargin import models as _recipes
    from comargin.data import Dataset, make_correlated

    monkeypatch.setattr(_recipes, "_REGISTRY", dict(_recipes._REGISTRY))

    def named(n_samples, *, seed, name):
        data = make_correlated(n_samples, n_features=5, n_labels=3, seed=seed)
        return Dataset(data.X, data.Y, data.feature_names, data.label_names, name)

    names["make_correlated"] = named


def prepare_own_learner(names, folder, monkeypatch):
    """The learner that the example builds."""
    names["RidgeLabels"] = runpy.run_path(str(ROOT / "examples" / "own_learner.py"))["RidgeLabels"]


PREPARE = {"formats": prepare_formats, "compare": prepare_compare, "own_learner": prepare_own_learner}


def programs():
    return sorted(page for page, text in PAGES.items() if "```python" in text and page not in RUN_ELSEWHERE)


@pytest.mark.parametrize("page", programs())
def test_code_runs_and_prints_what_the_page_shows(page, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    names = {"__name__": page}
    if page in PREPARE:
        PREPARE[page](names, tmp_path, monkeypatch)
    text = PAGES[page]
    for found, smaller in SMALLER.get(page, ()):
        assert found in text
        text = text.replace(found, smaller, 1)
    for block in re.finditer(r"```python\n(.*?)```(?:\n\n```text\n(.*?)```)?", text, flags=re.DOTALL):
        out = io.StringIO()
        with contextlib.redirect_stdout(out):
            exec(compile(block[1], f"{page}.md", "exec"), names)
        assert block[2] is None or out.getvalue() == block[2]


def test_pages_that_run_elsewhere_do():
    for page, test in RUN_ELSEWHERE.items():
        assert f'"{page}.md"' in (ROOT / test).read_text(encoding="utf-8")


# -- Reference ---------------------------------------------------------------------------------------------------------


def test_every_public_module_has_a_page():
    import comargin

    modules = {name for name in comargin.__all__ if isinstance(getattr(comargin, name), types.ModuleType)}
    assert modules <= set(CONF["REFERENCE"])


@pytest.mark.parametrize("page", CONF["REFERENCE"])
def test_every_public_name_is_in_the_reference(page):
    import comargin

    module = comargin if page == "comargin" else importlib.import_module(f"comargin.{page}")
    public = {name for name in module.__all__ if not isinstance(getattr(module, name), types.ModuleType)}
    public -= {"__version__"} if module is comargin else set()
    cells = re.findall(r"^\| (.*?) \|", PAGES[f"reference/{page}"], flags=re.MULTILINE)
    listed = [name for cell in cells for name in re.findall(r"`(\w+)`", cell)]
    assert sorted(listed) == sorted(public)


# -- Measures ----------------------------------------------------------------------------------------------------------


def measures_of_the_page():
    rows = re.findall(r"^\| `(\w+)` \| (low|high) \|", PAGES["measures"], flags=re.MULTILINE)
    return {name: best == "high" for name, best in rows}


def test_measures_are_those_of_evaluate():
    from comargin.metrics import evaluate, higher_is_better

    Y = np.eye(3, dtype=int)
    computed = evaluate(Y, Y.astype(float), Y, k=[2], propensities=[0.5, 0.5, 0.5], probabilities=Y)
    assert {name.replace("_at_k", "_at_2") for name in measures_of_the_page()} == set(computed)
    for name, high in measures_of_the_page().items():
        assert higher_is_better[name.replace("_at_k", "_at_2")] == high, name


def test_measures_are_functions_and_have_formulas():
    from comargin import metrics

    parts = PAGES["measures"][PAGES["measures"].index("## Label sets") :].split("$$")
    before_formulas = "".join(part.rsplit("\n\n", 2)[-2] for part in parts[:-1:2])  # the paragraph above each
    for name in measures_of_the_page():
        assert callable(getattr(metrics, name))
        assert f"`{name}`" in before_formulas or name == "micro_auc", name  # in words: that of macro_auc, pooled


# -- Formulas and pictures ---------------------------------------------------------------------------------------------


@pytest.mark.parametrize("page", sorted(PAGES))
def test_formulas_are_read_by_github_too(page):
    text = without_code(PAGES[page])
    assert text.count("$$") % 2 == 0
    for formula in text.split("$$")[1::2]:
        assert formula.count("{") == formula.count("}")
        refused = re.findall(r"\\[{},;!\\]|\\operatorname", formula)  # eaten by Markdown, or not allowed
        assert not refused, formula


PICTURES = sorted((DOCS / "pictures").glob("*.svg"))


@pytest.mark.parametrize("path", PICTURES, ids=lambda path: path.stem)
def test_pictures_are_small_plain_and_shown(path):
    assert path.stat().st_size < 40_000
    root = ElementTree.parse(path).getroot()
    tags = {element.tag.removeprefix("{http://www.w3.org/2000/svg}") for element in root.iter()}
    assert tags <= {"svg", "title", "rect", "text", "line", "circle", "polyline", "g", "path"}
    used = [page for page, text in PAGES.items() if re.search(rf"!\[.+\]\(pictures/{path.name}\)", text)]
    assert used


@pytest.mark.compiled
def test_pictures_are_those_of_the_script():
    spec = importlib.util.spec_from_file_location("make_pictures", DOCS / "pictures" / "make.py")
    script = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(script)
    assert sorted(draw.__name__ for draw in script.PICTURES) == [path.stem for path in PICTURES]

    def words(svg):
        return [element.text for element in ElementTree.fromstring(svg).iter() if element.tag.endswith("text")]

    for draw in script.PICTURES:
        assert words("\n".join([*draw().parts, "</svg>"])) == words(
            (DOCS / f"pictures/{draw.__name__}.svg").read_text()
        )


# -- The site ----------------------------------------------------------------------------------------------------------


def test_site_builds_without_warnings_and_loads_nothing(tmp_path):
    for module in ("sphinx", "myst_parser", "furo"):
        pytest.importorskip(module, reason=f"{module} is not installed: make docs")
    command = [
        sys.executable,
        "-m",
        "sphinx",
        "-q",
        "-W",
        "--keep-going",
        "-d",
        tmp_path / "trees",
        DOCS,
        tmp_path / "site",
    ]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    pages = {path.name: path.read_text(encoding="utf-8") for path in (tmp_path / "site").rglob("*.html")}
    assert "<math" in pages["measures.html"]
    assert "comargin.metrics.hamming_loss" in pages["metrics.html"]
    for name, html in pages.items():
        loaded = re.findall(r'<(?:script|img|link|iframe)[^>]*(?:src|href)="(?:https?:)?//[^"]+"', html)
        assert not loaded, (name, loaded)
