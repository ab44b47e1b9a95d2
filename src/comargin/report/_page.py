"""HTML of a report: escaped text, tables, sections, and one page with style, scripts and data in it."""

import base64
import hashlib
import html
import importlib.resources
import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from .theme import DARK, Figure, number


@dataclass(frozen=True)
class Section:
    """A part of the page with a heading."""

    anchor: str  # its ``id``
    title: str  # heading, and name in the navigation
    body: str  # HTML; all texts in it are escaped
    figures: dict[str, Figure] = field(default_factory=dict)  # their places (`figure_place`) are in the body


def escaped(text: object) -> str:
    """Escape a text for HTML, attributes included."""
    return html.escape(str(text), quote=True)


def figure_place(name: str, description: str) -> str:
    """The element in which the page draws a figure."""
    return f'<div class="figure" id="figure-{name}" role="img" aria-label="{escaped(description)}"></div>'


def table(
    columns: Sequence[tuple[str, str]], rows: Sequence[Sequence[Any]], *, name: str = "", tall: bool = False
) -> str:
    """A table sorted by clicking on its headings; with a name it has a field that filters its rows.

    Columns are titles with kinds of values: "text"; "label" (number in the page and name, to be clicked on unless the
    number is -1); "weighted" (a list of names and weights); "number" (four digits), "count" or "share" (of 1, in
    percent); "bar" (a number in [0, 1] with a bar).
    """
    heads = "".join(
        f'<th scope="col" class="{kind}"><button type="button" class="sort">{escaped(title)}</button></th>'
        for title, kind in columns
    )
    lines = "".join(
        "<tr>" + "".join(_cell(kind, value) for (_, kind), value in zip(columns, row, strict=True)) + "</tr>"
        for row in rows
    )
    identity = f' id="{name}"' if name else ""
    body = f"<table{identity}><thead><tr>{heads}</tr></thead><tbody>{lines}</tbody></table>"
    search = ""
    if name and len(rows) > 12:
        search = f'<p class="filter"><input type="search" data-table="{name}" placeholder="Find in {len(rows)} rows" '
        search += 'aria-label="Keep the rows with this text"></p>'
    return f'{search}<div class="{"box tall" if tall else "box"}">{body}</div>'


def facts(pairs: Sequence[tuple[str, str]]) -> str:
    """A list of terms with their texts."""
    lines = "".join(f"<div><dt>{escaped(term)}</dt><dd>{escaped(text)}</dd></div>" for term, text in pairs)
    return f'<dl class="facts">{lines}</dl>'


def folded(title: str, body: str) -> str:
    """A part that opens when its title is clicked on."""
    return f"<details><summary>{escaped(title)}</summary>{body}</details>"


def page(title: str, lead: str, sections: Sequence[Section], data: Mapping[str, Any], choices: Sequence[str]) -> str:
    """One HTML page that loads nothing; its security policy allows only the two scripts written here."""
    from plotly.offline import get_plotlyjs

    figures = {name: _figure_json(figure) for section in sections for name, figure in section.figures.items()}
    scripts = [get_plotlyjs(), _asset("page.js")] if figures else [_asset("page.js")]
    digests = (hashlib.sha256(script.encode("utf-8")).digest() for script in scripts)
    hashes = " ".join(f"'sha256-{base64.b64encode(digest).decode('ascii')}'" for digest in digests)
    policy = f"default-src 'none'; script-src {hashes}; style-src 'unsafe-inline'; img-src data: blob:"
    policy += "; form-action 'none'; base-uri 'none'"
    links = "".join(f'<a href="#{section.anchor}">{escaped(section.title)}</a>' for section in sections)
    picker = ""
    if choices:
        options = "".join(f'<option value="{k}">{escaped(name)}</option>' for k, name in enumerate(choices))
        picker = f'<label class="picker">Label <select id="label-choice">{options}</select></label>'
    parts = "".join(
        f'<section id="{section.anchor}"><h2>{escaped(section.title)}</h2>{section.body}</section>'
        for section in sections
    )
    head = (
        f'<meta charset="utf-8"><meta http-equiv="Content-Security-Policy" content="{policy}">'
        '<meta name="viewport" content="width=device-width, initial-scale=1"><meta name="color-scheme" '
        f'content="light dark"><title>{escaped(title)}</title><style>{_asset("page.css")}</style>'
    )
    content = json.dumps({**data, "figures": figures, "dark": DARK}, separators=(",", ":"), allow_nan=False)
    for character in "<>&":  # JSON must not end the element it stands in
        content = content.replace(character, f"\\u{ord(character):04x}")
    return (
        f'<!DOCTYPE html>\n<html lang="en">\n<head>{head}</head>\n<body>\n'
        f"<header><h1>{escaped(title)}</h1>{lead}</header>\n<nav>{links}{picker}</nav>\n<main>{parts}</main>\n"
        '<noscript><p class="note">Figures and sorting need JavaScript; all tables are complete without.</p></noscript>'
        f'\n<script type="application/json" id="report-data">{content}</script>\n'
        + "".join(f"<script>{script}</script>\n" for script in scripts)
        + "</body>\n</html>\n"
    )


def _cell(kind: str, value: Any) -> str:
    if kind == "label":
        index, name = value
        if index < 0:
            return f'<td class="label">{escaped(name)}</td>'
        return f'<td class="label"><button type="button" data-label="{index}">{escaped(name)}</button></td>'
    if kind == "weighted":
        shown = ", ".join(f"{escaped(name)} <small>{weight:+.3g}</small>" for name, weight in value)
        return f'<td class="weighted">{shown or "none"}</td>'
    if kind == "text":
        return f'<td class="text">{escaped(value)}</td>'
    if not np.isfinite(value):
        return f'<td class="{kind} none" data-value="-1">not defined</td>'
    shown = {"count": f"{value:.0f}", "share": f"{100 * value:.0f} %", "bar": f"{value:.3f}"}.get(kind, number(value))
    bar = f' style="--share:{min(max(value, 0), 1):.3f}"' if kind == "bar" else ""
    return f'<td class="{kind}" data-value="{value:.6g}"{bar}>{shown}</td>'


def _figure_json(figure: Figure) -> dict[str, Any]:
    """Data and layout of a figure without its title: the page has headings."""
    from plotly.io import to_json

    content: dict[str, Any] = json.loads(to_json(figure, validate=False))
    content["layout"].pop("title", None)
    return {"data": content["data"], "layout": content["layout"]}


def _asset(name: str) -> str:
    return importlib.resources.files(__package__).joinpath("assets", name).read_text(encoding="utf-8")
