"""The guide as a site: Sphinx reads the Markdown pages of this folder. Built by `make docs`, without a network.

The pages are plain Markdown, so that they can be read where they lie; what only Sphinx needs is added here: the
navigation below the first page, and the docstrings below the lists of names in ``reference/``.
"""

from __future__ import annotations

import importlib
import re
from pathlib import Path
from typing import Any

from docutils import nodes
from docutils.utils.math import MathError
from docutils.utils.math.latex2mathml import tex2mathml
from sphinx.util import logging

import comargin

DOCS = Path(__file__).parent

# -- What is where
NAVIGATION = {
    "Start": ["Tutorial <tutorial>", "Command line <command_line>", "Which model when <which_model>"],
    "Learners": [
        "M3L <m3l>",
        "Structured SVM and CGM <structured>",
        "Rank-CVM and Rank-SVM <rank>",
        "LSG21 <lsg21>",
        "PrBR and PrML <prml>",
        "Zero-shot <zero_shot>",
    ],
    "Around them": [
        "Measures <measures>",
        "Probabilities and aims <decisions>",
        "Guarantees <guarantees>",
        "Thresholds <thresholds>",
        "Comparing models <compare>",
        "Wrong labels <audit>",
        "Reports <report>",
        "File formats <formats>",
        "Unknown labels <unknown_labels>",
        "Model files <model_files>",
    ],
    "Going further": [
        "How the code is laid out <architecture>",
        "A learner of your own <own_learner>",
        "Speed <speed>",
        "Reference <reference/index>",
        "Changelog <changelog>",
    ],
}
REFERENCE = [  # pages of reference/, each about the module of its name
    "comargin",
    "data",
    "training",
    "metrics",
    "decisions",
    "search",
    "model_selection",
    "comparison",
    "report",
    "graphs",
    "inference",
    "persistence",
    "core",
]

# -- Sphinx
project = "comargin"
author = "The comargin developers"
copyright = author
version = release = comargin.__version__

extensions = ["myst_parser", "sphinx.ext.autodoc", "sphinx.ext.napoleon"]
suppress_warnings = ["ref.python"]  # `n_labels` in the shape of an attribute: a word, no link
default_role = "py:obj"  # `name` in a docstring is a link where the name is known
toc_object_entries_show_parents = "hide"

myst_enable_extensions = ["dollarmath"]
myst_heading_anchors = 3

autodoc_typehints = "none"  # the docstrings tell the types
autodoc_member_order = "bysource"
autodoc_default_options = {
    "members": True,
    # What is inherited from these is scikit-learn's and Python's.
    "inherited-members": "BaseEstimator, ClassifierMixin, MetaEstimatorMixin, BaseShuffleSplit, Mapping, tuple, Enum",
    "exclude-members": "get_metadata_routing, set_fit_request, set_score_request, set_predict_request, "
    "set_decision_function_request, n_features_in_",
}
napoleon_google_docstring = False
napoleon_use_rtype = napoleon_use_param = False  # types as they are written: `n_labels` in a shape is no link
napoleon_use_ivar = True

html_theme = "furo"
html_title = f"comargin {release}"
html_static_path = ["_static"]
html_css_files = ["site.css"]
html_math_renderer = "mathml"
html_show_search_summary = False  # a summary is fetched, which a browser refuses from file://
smartquotes = False  # solver="dcd" is code
html_copy_source = False
html_show_sphinx = False


# -- Formulas as MathML: no script, no font, no network
def mathml(node: nodes.Element, *, as_block: bool) -> str:
    tex = re.sub(r"frac(\d)(\d)", r"frac{\1}{\2}", node.astext())  # docutils reads \frac12 as twelve
    # Two commands that it does not know: dots, and sizes of brackets, which MathML stretches by itself.
    tex = re.sub(r"\\[bB]igg?(?![a-zA-Z])", "", tex).replace(r"\dots", r"\ldots")
    # Bars in pairs, so that an exponent belongs to both.
    tex = re.sub(r"\\r([vV]ert)", r"\\right\\r\1", re.sub(r"\\l([vV]ert)", r"\\left\\l\1", tex))
    try:
        return tex2mathml(tex, as_block=as_block)
    except MathError as error:
        logging.getLogger(__name__).warning("%s in the formula %s", error, tex, location=node)
        return ""


def write_inline_formula(translator: Any, node: nodes.math) -> None:
    translator.body.append(mathml(node, as_block=False))
    raise nodes.SkipNode


def write_formula(translator: Any, node: nodes.math_block) -> None:
    translator.body.append(f'<div class="math">{mathml(node, as_block=True)}</div>\n')
    raise nodes.SkipNode


# -- What Sphinx needs beyond the pages
def toctree(pages: list[str], caption: str = "") -> str:
    options = [":hidden:", *([f":caption: {caption}"] if caption else [])]
    return "\n".join(["", "```{toctree}", *options, "", *pages, "```", ""])


def listed_names(page: str) -> list[str]:
    """Names in the first column of the tables of a page of the reference, in their order."""
    cells = re.findall(r"^\| (.*?) \|", page, flags=re.MULTILINE)
    return [name for cell in cells for name in re.findall(r"`(\w+)`", cell)]


def docstrings(module_name: str, page: str) -> str:
    """Autodoc directives for all names that a page of the reference lists."""
    module = importlib.import_module(module_name)
    lines = ["", "```{eval-rst}"]
    for name in listed_names(page):
        thing = getattr(module, name)
        kind = "autoclass" if isinstance(thing, type) else "autofunction" if callable(thing) else "py:data"
        elsewhere = module_name != "comargin" and name in importlib.import_module("comargin").__all__
        lines += [f".. {kind}:: {module_name}.{name}", *(["   :no-index:"] if elsewhere else []), ""]
    return "\n".join([*lines, "```", ""])


def complete_page(app: Any, docname: str, source: list[str]) -> None:
    if docname == "changelog":
        source[0] = (DOCS.parent / "CHANGELOG.md").read_text(encoding="utf-8")
    elif docname == "index":
        source[0] += "".join(toctree(pages, caption) for caption, pages in NAVIGATION.items())
    elif docname == "reference/index":
        source[0] += toctree(REFERENCE)
    elif docname.startswith("reference/"):
        module = docname.removeprefix("reference/")
        source[0] += docstrings("comargin" if module == "comargin" else f"comargin.{module}", source[0])


def escape_underscores(app: Any, what: str, name: str, thing: Any, options: Any, lines: list[str]) -> None:
    """Keep ``n_features_in_,`` in the type of a parameter from being read as a link; before napoleon sees it."""
    lines[:] = [re.sub(r"(?<=\w)_(?=[,)])", r"\_", line) if re.match(r"\w.* : ", line) else line for line in lines]


def setup(app: Any) -> None:
    app.add_html_math_renderer("mathml", (write_inline_formula, None), (write_formula, None))
    app.connect("source-read", complete_page)
    app.connect("autodoc-process-docstring", escape_underscores, priority=400)
