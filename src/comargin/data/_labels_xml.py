"""Mulan's XML list of labels: a safe reader, a writer, and the search for the one of an ARFF file."""

import gzip
import re
import zlib
from pathlib import Path
from typing import IO
from xml.parsers import expat
from xml.sax.saxutils import quoteattr

from ..core.files import is_gzip, plain_stem, plain_suffix
from ._dataset import DataFormatError
from ._source import check_is_file

MAX_BYTES = 1 << 26
MAX_DEPTH = 64
NAMESPACE = "http://mulan.sourceforge.net/labels"
_NOT_XML = re.compile("[\x00-\x08\x0b\x0c\x0e-\x1f\ufffe\uffff]")
_SPLIT_SUFFIX = re.compile(r"[-_.](?:train|valid|test)$", re.IGNORECASE)


def read_labels_xml(path: Path) -> tuple[str, ...]:
    """Read the label names in document order; a hierarchy of nested labels is flattened, parents first.

    Document types and entity declarations (nothing can expand) and deeper or larger files are refused.
    """
    check_is_file(path)
    too_large = DataFormatError(path, f"is larger than {MAX_BYTES} bytes: not a list of labels")
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
        if path.stat().st_size > MAX_BYTES:
            raise too_large
        with gzip.open(path) if is_gzip(path) else path.open("rb") as file:
            content = file.read(MAX_BYTES + 1)
        if len(content) > MAX_BYTES:
            raise too_large
        parser.Parse(content, True)
    except (OSError, EOFError, zlib.error) as error:
        raise DataFormatError(path, f"cannot be read ({error})") from error
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
    """XML of the same stem as an ARFF file, or of its stem without the part (``-train``, ...); None: there is none."""
    stem = plain_stem(path)
    for candidate in (stem, _SPLIT_SUFFIX.sub("", stem)):
        for suffix in (".xml", ".xml.gz"):
            xml = path.with_name(candidate + suffix)
            if xml.is_file():
                return xml
    return None


def only_xml_of_folder(path: Path) -> Path | None:
    """The XML in the folder of an ARFF file if there is one only, whatever it is called."""
    found = _xmls_beside(path)
    return found[0] if len(found) == 1 else None


def _xmls_beside(path: Path) -> list[Path]:
    return sorted(each for each in path.parent.iterdir() if plain_suffix(each) == ".xml" and each.is_file())


def find_labels_xml(path: Path) -> Path:
    """Find the XML of an ARFF file: that of `labels_xml_of`, or else the only one of its folder."""
    xml = labels_xml_of(path)
    if xml is not None:
        return xml
    found = _xmls_beside(path)
    if len(found) == 1:
        return found[0]
    which = "no XML file" if not found else f"{len(found)} XML files, none of that name,"
    raise DataFormatError(
        path,
        f"which attributes are labels? There is no {plain_stem(path)}.xml and {which} in its folder; say labels= "
        "(an XML file, a list of names, or a number of leading (> 0) or trailing (< 0) attributes)",
    )
