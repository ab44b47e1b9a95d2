"""Mulan's XML list of labels: a safe reader, a writer, and the search for the one of an ARFF file."""

import re
from pathlib import Path
from typing import IO
from xml.parsers import expat
from xml.sax.saxutils import quoteattr

from ..core.files import plain_stem
from ._dataset import DataFormatError
from ._source import check_is_file

MAX_BYTES = 1 << 26
MAX_DEPTH = 64
NAMESPACE = "http://mulan.sourceforge.net/labels"
_NOT_XML = re.compile("[\x00-\x08\x0b\x0c\x0e-\x1f\ufffe\uffff]")
_SPLIT_SUFFIX = re.compile(r"[-_.](?:train|test)$", re.IGNORECASE)


def read_labels_xml(path: Path) -> tuple[str, ...]:
    """Read the label names in document order; a hierarchy of nested labels is flattened, parents first.

    Document types and entity declarations (nothing can expand) and deeper or larger files are refused.
    """
    check_is_file(path)
    if path.stat().st_size > MAX_BYTES:
        raise DataFormatError(path, f"is larger than {MAX_BYTES} bytes: not a list of labels")
    names: dict[str, None] = {}
    depth = 0
    parser = expat.ParserCreate()

    def fail(reason: str) -> DataFormatError:
        return DataFormatError(path, reason, parser.CurrentLineNumber)

    def start(tag: str, attributes: dict[str, str]) -> None:
        nonlocal depth
        depth += 1
        if depth > MAX_DEPTH:
            raise fail(f"elements are nested deeper than {MAX_DEPTH} levels")
        local = tag.rpartition(":")[2]
        if depth == 1:
            if local != "labels":
                raise fail(f"the root element is <{tag}>, expected <labels>")
            return
        if local != "label":
            raise fail(f"unexpected element <{tag}>, expected <label name=...>")
        name = attributes.get("name")
        if not name:
            raise fail("a <label> has no name")
        if name in names:
            raise fail(f"label {name!r} is listed twice")
        names[name] = None

    def end(tag: str) -> None:
        nonlocal depth
        depth -= 1

    def refuse(*_: object) -> None:
        raise fail("has a document type or entity declaration: refused")

    parser.StartElementHandler = start
    parser.EndElementHandler = end
    parser.StartDoctypeDeclHandler = refuse
    parser.EntityDeclHandler = refuse
    parser.ExternalEntityRefHandler = refuse  # type: ignore[assignment]
    try:
        with path.open("rb") as file:
            parser.ParseFile(file)
    except (expat.ExpatError, LookupError, ValueError) as error:
        if isinstance(error, DataFormatError):
            raise
        line = getattr(error, "lineno", None)
        raise DataFormatError(path, f"is not well-formed XML ({error})", line) from error
    if not names:
        raise DataFormatError(path, "lists no labels")
    return tuple(names)


def write_labels_xml(names: tuple[str, ...], file: IO[str]) -> None:
    for name in names:
        if _NOT_XML.search(name):
            raise ValueError(f"dataset: label {name!r} holds a control character, which XML cannot")
    # XML readers normalise attribute values: white space other than a blank needs a character reference.
    white_space = {"\n": "&#10;", "\r": "&#13;", "\t": "&#9;"}
    file.write(f'<?xml version="1.0" encoding="utf-8"?>\n<labels xmlns="{NAMESPACE}">\n')
    for name in names:
        file.write(f"<label name={quoteattr(name, white_space)}></label>\n")
    file.write("</labels>\n")


def labels_xml_of(path: Path) -> Path | None:
    """XML of the same stem as an ARFF file, else of its stem without ``-train`` or ``-test``; None: there is none."""
    stem = plain_stem(path)
    for candidate in (stem, _SPLIT_SUFFIX.sub("", stem)):
        xml = path.with_name(f"{candidate}.xml")
        if xml.is_file():
            return xml
    return None


def find_labels_xml(path: Path) -> Path:
    """Find the XML of an ARFF file: same stem, else without ``-train`` or ``-test``, else the folder's only XML."""
    xml = labels_xml_of(path)
    if xml is not None:
        return xml
    found = sorted(p for p in path.parent.iterdir() if p.suffix.lower() == ".xml" and p.is_file())
    if len(found) == 1:
        return found[0]
    which = "no XML file" if not found else f"{len(found)} XML files, none of that name,"
    raise DataFormatError(
        path,
        f"which attributes are labels? There is no {plain_stem(path)}.xml and {which} in its folder; say labels= "
        "(an XML file, a list of names, or a number of leading (> 0) or trailing (< 0) attributes)",
    )
