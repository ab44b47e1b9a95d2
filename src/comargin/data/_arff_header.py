"""The header of an ARFF file: relation, attributes, and the quoting of names."""

import re
from pathlib import Path
from typing import IO, NamedTuple

from ._labels_xml import labels_xml_of
from ._source import TextSource

_ESCAPES = {"n": "\n", "r": "\r", "t": "\t"}
_UNESCAPES = {"\\": "\\\\", "'": "\\'", "\n": "\\n", "\r": "\\r", "\t": "\\t"}
_NEEDS_QUOTES = re.compile(r"""[\s'"\\%,{}?]|[^\x20-\x7e]""")
# A quoted token, or one that ends at white space or a brace; a backslash takes the next character with it.
# Possessive repeats (*+) never give back, so that a malformed line costs time linear in its length.
_NAME = re.compile(r"""'((?:[^'\\]|\\.)*+)'|"((?:[^"\\]|\\.)*+)"|((?:[^\s{'"\\]|\\.)(?:[^\s{\\]|\\.)*+)""", re.DOTALL)
_VALUE = re.compile(r"""\s*+(?:'((?:[^'\\]|\\.)*+)'\s*+|"((?:[^"\\]|\\.)*+)"\s*+|([^,}'"][^,}]*+))([,}])""", re.DOTALL)
_MEKA = re.compile(r"(?:^|[\s:])-C\s+(-?[0-9]{1,9})(?![0-9.])")
# Weka adds the filters that a file went through to its name; these two move columns after MEKA has counted.
_MOVED = re.compile(r"-C\s+-?[0-9]{1,9}(?![0-9.]).*attribute\.(?:Remove|Reorder)\b")
_KEYWORD = re.compile(r"@([A-Za-z]+)(?=\s|$|\{)")
_FIRST = re.compile(r"\s*@(?:relation|attribute|data)\b", re.IGNORECASE)
_NUMERIC = {"numeric", "real", "integer"}
_REFUSED = {"string", "date"}


class Attribute(NamedTuple):
    """One ``@attribute``; ``kind`` is "numeric", "nominal" (then with ``values``), "string" or "date"."""

    name: str
    kind: str
    values: tuple[str, ...]
    line: int


class Header(NamedTuple):
    relation: str
    attributes: tuple[Attribute, ...]


def meka_labels(relation: str) -> int | None:
    """Return the number n of MEKA's ``-C n`` in a relation name (negative: labels last), or None."""
    found = _MEKA.search(relation)
    return int(found.group(1)) if found else None


def may_be_stale(relation: str) -> bool:
    """Whether columns were moved or removed after the labels were counted, as the relation name tells."""
    return _MOVED.search(relation) is not None


def without_label_count(relation: str) -> str:
    """Make a name safe from being read as MEKA's ``-C n``."""
    while meka_labels(relation) is not None:
        relation = _MEKA.sub(r" C\1", relation)
    return relation


def is_arff_line(line: str) -> bool:
    return _FIRST.match(line) is not None


def arff_kind(path: Path, delimiter: str | None) -> str:
    """Tell MEKA's files, which count the labels in the relation name, from Mulan's.

    With an XML of its own a file is Mulan's: it may have kept the relation name of a MEKA file with other columns.
    """
    if labels_xml_of(path) is not None:
        return "mulan"
    with TextSource(path, "latin-1") as source:
        keyword, rest = _statement(source) or ("", "")
    return "meka" if keyword == "relation" and meka_labels(_relation_name(rest)) is not None else "mulan"


def _statement(source: TextSource) -> tuple[str, str] | None:
    """Keyword and rest of the next line that is neither blank nor a comment; None at the end of the file.

    The keyword is empty, and the rest the whole line, where none of the form ``@word`` starts the line.
    """
    while (text := source.readline()) is not None:
        text = text.strip()
        if text and not text.startswith("%"):
            match = _KEYWORD.match(text)
            return (match.group(1).lower(), text[match.end() :].strip()) if match else ("", text)
    return None


def _relation_name(text: str) -> str:
    """Return the name, which may hold blanks without being quoted."""
    name = _NAME.match(text) if text[:1] in ("'", '"') else None
    return token(name)[0] if name else text


def unquote(body: str, quoted: bool) -> str:
    r"""Resolve backslashes; ``\n \r \t`` are characters in quotes only, ``\' \" \\ \%`` everywhere."""
    if "\\" not in body:
        return body
    if quoted:
        return re.sub(r"\\(.)", lambda m: _ESCAPES.get(m.group(1), m.group(1)), body, flags=re.DOTALL)
    return re.sub(r"""\\(['"\\%])""", r"\1", body)


def quote(name: str) -> str:
    """Write a name or value so that `unquote` gives it back."""
    if name and not _NEEDS_QUOTES.search(name) and not name.startswith("@"):
        return name
    return "'" + "".join(_UNESCAPES.get(c, c) for c in name) + "'"


def token(match: re.Match[str]) -> tuple[str, bool]:
    """Text of a match with the groups single-quoted, double-quoted and bare, and whether it is quoted."""
    single, double, bare = match.group(1, 2, 3)
    if bare is not None:
        return unquote(bare.strip(), quoted=False), False
    return unquote(single if single is not None else double, quoted=True), True


def _parse_values(text: str) -> tuple[tuple[str, ...], str] | None:
    """Values of ``{a, 'b c', ...}`` and what follows the brace; None when it is malformed."""
    values: list[str] = []
    at = 1
    while match := _VALUE.match(text, at):
        values.append(token(match)[0])
        at = match.end()
        if match.group(4) == "}":
            return tuple(values), text[at:]
    return None


def _read_attribute(source: TextSource, text: str, known: dict[str, tuple[str, ...]]) -> Attribute:
    """Parse an attribute line; ``known`` caches the values of nominal declarations, most of which repeat."""
    line = source.line
    match = _NAME.match(text)
    if match is None:
        raise source.fail("an @attribute without a (properly quoted) name", line)
    name, _ = token(match)
    declared = text[match.end() :].strip()
    if declared in known:
        return Attribute(name, "nominal", known[declared], line)
    kind, rest = (*declared.split(None, 1), "", "")[:2]
    kind = kind.lower()
    values: tuple[str, ...] = ()
    if declared.startswith("{"):
        parsed = _parse_values(declared)
        if parsed is None:
            raise source.fail(f"the values of nominal attribute {name!r} are malformed or not closed", line)
        values, rest = parsed
        if len(set(values)) < len(values):
            raise source.fail(f"nominal attribute {name!r} declares a value twice", line)
    elif kind in _REFUSED:
        return Attribute(name, kind, (), line)
    elif kind not in _NUMERIC:
        raise source.fail(f"attribute {name!r} has {f'unknown type {kind!r}' if kind else 'no type'}", line)
    rest = rest.strip()
    if rest and not rest.startswith("%"):
        raise source.fail(f"unexpected {rest[:40]!r} after the type of attribute {name!r}", line)
    if values:
        known[declared] = values
    return Attribute(name, "nominal" if values else "numeric", values, line)


def read_header(source: TextSource) -> Header:
    """Read up to and including the ``@data`` line."""
    relation: str | None = None
    attributes: dict[str, Attribute] = {}
    known: dict[str, tuple[str, ...]] = {}
    while (statement := _statement(source)) is not None:
        keyword, rest = statement
        if keyword == "attribute":
            attribute = _read_attribute(source, rest, known)
            first = attributes.setdefault(attribute.name, attribute)
            if first is not attribute:
                reason = f"attribute {attribute.name!r} is declared twice (first in line {first.line})"
                raise source.fail(reason, source.line)
        elif keyword == "relation" and relation is None and not attributes:
            relation = _relation_name(rest)
        elif keyword == "data":
            if not attributes:
                raise source.fail("@data before any @attribute", source.line)
            return Header(relation or "", tuple(attributes.values()))
        else:
            found = f"@{keyword} {rest}".strip() if keyword else rest
            raise source.fail(f"expected @relation, @attribute or @data, found {found[:40]!r}", source.line)
    raise source.fail("the file ends before @data", source.line or None)


def write_header(file: IO[str], relation: str, attributes: list[tuple[str, str]]) -> None:
    file.write(f"@relation {quote(relation)}\n\n")
    for name, kind in attributes:
        file.write(f"@attribute {quote(name)} {kind}\n")
    file.write("\n@data\n")
