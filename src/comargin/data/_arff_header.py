"""The header of an ARFF file: relation, attributes, and the quoting of names."""

from __future__ import annotations

import re
from dataclasses import dataclass
from pathlib import Path
from typing import IO

from ._source import TextSource

_ESCAPES = {"n": "\n", "r": "\r", "t": "\t"}
_UNESCAPES = {"\\": "\\\\", "'": "\\'", "\n": "\\n", "\r": "\\r", "\t": "\\t"}
_NEEDS_QUOTES = re.compile(r"""[\s'"\\%,{}?]|[^\x20-\x7e]""")
# A quoted token, or one that ends at white space or a brace; a backslash takes the next character with it.
# Possessive repeats (*+) never give back, so that a malformed line costs time linear in its length.
_NAME = re.compile(r"""'((?:[^'\\]|\\.)*+)'|"((?:[^"\\]|\\.)*+)"|((?:[^\s{'"\\]|\\.)(?:[^\s{\\]|\\.)*+)""", re.DOTALL)
_VALUE = re.compile(r"""\s*+(?:'((?:[^'\\]|\\.)*+)'\s*+|"((?:[^"\\]|\\.)*+)"\s*+|([^,}'"][^,}]*+))([,}])""", re.DOTALL)
_MEKA = re.compile(r"(?:^|[\s:])-C\s+(-?[0-9]{1,9})(?![0-9.])")
_KEYWORD = re.compile(r"@([A-Za-z]+)(?=\s|$|\{)")
_FIRST = re.compile(r"\s*@(?:relation|attribute|data)\b", re.IGNORECASE)
_NUMERIC = {"numeric", "real", "integer"}
_REFUSED = {"string", "date"}


@dataclass(frozen=True)
class Attribute:
    """One ``@attribute``; ``kind`` is "numeric", "nominal" (then with ``values``), "string" or "date"."""

    name: str
    kind: str
    values: tuple[str, ...]
    line: int


@dataclass(frozen=True)
class Header:
    """Relation name and attributes."""

    relation: str
    attributes: tuple[Attribute, ...]


def meka_labels(relation: str) -> int | None:
    """Return the number n of MEKA's ``-C n`` in a relation name (negative: labels last), or None."""
    found = _MEKA.search(relation)
    return int(found.group(1)) if found else None


def without_label_count(relation: str) -> str:
    """Make a name safe from being read as MEKA's ``-C n``."""
    while meka_labels(relation) is not None:
        relation = _MEKA.sub(r" C\1", relation)
    return relation


def is_arff_line(line: str) -> bool:
    """Tell whether an ARFF file may start with this line."""
    return _FIRST.match(line) is not None


def arff_kind(path: Path, delimiter: str | None) -> str:
    """Tell MEKA's files, which count the labels in the relation name, from Mulan's."""
    with TextSource(path, "latin-1") as source:
        return "mulan" if meka_labels(read_relation(source)) is None else "meka"


def read_relation(source: TextSource) -> str:
    """Read up to the relation and return its name; empty when the header starts otherwise."""
    while (text := source.readline()) is not None:
        text = text.strip()
        if text and not text.startswith("%"):
            match = _KEYWORD.match(text)
            return _relation_name(text[match.end() :]) if match and match.group(1).lower() == "relation" else ""
    return ""


def _relation_name(text: str) -> str:
    """Return the name, which may hold blanks without being quoted."""
    text = text.strip()
    name = _NAME.match(text) if text[:1] in ("'", '"') else None
    return _token(name) if name else text


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


def _token(match: re.Match[str]) -> str:
    single, double, bare = match.group(1, 2, 3)
    if bare is not None:
        return unquote(bare.strip(), quoted=False)
    return unquote(single if single is not None else double, quoted=True)


def _parse_values(text: str) -> tuple[tuple[str, ...] | None, str]:
    """Values of ``{a, 'b c', ...}`` and what follows the brace; None when it is malformed."""
    values: list[str] = []
    at = 1
    while True:
        match = _VALUE.match(text, at)
        if match is None:
            return None, text
        values.append(_token(match))
        at = match.end()
        if match.group(4) == "}":
            return tuple(values), text[at:]


class _AttributeReader:
    """Parses attribute lines; remembers nominal declarations, most of which repeat."""

    def __init__(self, source: TextSource) -> None:
        self._source = source
        self._known: dict[str, tuple[str, ...]] = {}

    def read(self, text: str, line: int) -> Attribute:
        match = _NAME.match(text)
        if match is None:
            raise self._source.fail("an @attribute without a (properly quoted) name", line)
        name = _token(match)
        declared = text[match.end() :].strip()
        if declared.startswith("{"):
            return Attribute(name, "nominal", self._values(name, declared, line), line)
        kind, _, rest = declared.partition(" ") if "\t" not in declared else declared.partition("\t")
        kind = kind.lower()
        if kind in _NUMERIC:
            self._check_rest(name, rest, line)
            return Attribute(name, "numeric", (), line)
        if kind in _REFUSED:
            return Attribute(name, kind, (), line)
        what = f"unknown type {kind!r}" if kind else "no type"
        raise self._source.fail(f"attribute {name!r} has {what}", line)

    def _values(self, name: str, declared: str, line: int) -> tuple[str, ...]:
        known = self._known.get(declared)
        if known is None:
            known, rest = _parse_values(declared)
            if known is None:
                raise self._source.fail(f"the values of nominal attribute {name!r} are malformed or not closed", line)
            self._check_rest(name, rest, line)
            if len(set(known)) < len(known):
                raise self._source.fail(f"nominal attribute {name!r} declares a value twice", line)
            self._known[declared] = known
        return known

    def _check_rest(self, name: str, rest: str, line: int) -> None:
        rest = rest.strip()
        if rest and not rest.startswith("%"):
            raise self._source.fail(f"unexpected {rest[:40]!r} after the type of attribute {name!r}", line)


def read_header(source: TextSource) -> Header:
    """Read up to and including the ``@data`` line."""
    relation: str | None = None
    attributes: list[Attribute] = []
    seen: dict[str, int] = {}
    reader = _AttributeReader(source)
    while (text := source.readline()) is not None:
        text = text.strip()
        if not text or text.startswith("%"):
            continue
        match = _KEYWORD.match(text)
        keyword = match.group(1).lower() if match else ""
        rest = text[match.end() :].strip() if match else ""
        if keyword == "attribute":
            attribute = reader.read(rest, source.line)
            if attribute.name in seen:
                first = seen[attribute.name]
                raise source.fail(
                    f"attribute {attribute.name!r} is declared twice (first in line {first})", source.line
                )
            seen[attribute.name] = source.line
            attributes.append(attribute)
        elif keyword == "relation" and relation is None and not attributes:
            relation = _relation_name(rest)
        elif keyword == "data":
            if not attributes:
                raise source.fail("@data before any @attribute", source.line)
            return Header(relation or "", tuple(attributes))
        else:
            raise source.fail(f"expected @relation, @attribute or @data, found {text[:40]!r}", source.line)
    raise source.fail("the file ends before @data", source.line or None)


def write_header(file: IO[str], relation: str, attributes: list[tuple[str, str]]) -> None:
    """Write relation, attributes and the ``@data`` line."""
    file.write(f"@relation {quote(relation)}\n\n")
    for name, kind in attributes:
        file.write(f"@attribute {quote(name)} {kind}\n")
    file.write("\n@data\n")
