"""Elements of SVG pictures, which need no browser and no plotly to be written."""

import re
from collections.abc import Iterable
from xml.sax.saxutils import escape, quoteattr

from .theme import FAINT_INK, FONT_FAMILY, INK

# XML 1.0 has no way to write other control characters, surrogates and the two non-characters.
_NOT_IN_XML = re.compile("[^\t\n\r\u0020-\ud7ff\ue000-\ufffd\U00010000-\U0010ffff]")


def xml_text(text: object) -> str:
    """A text as it may stand in XML, not escaped; characters that XML does not have become U+FFFD."""
    return _NOT_IN_XML.sub("\ufffd", str(text))


def element(name: str, content: str = "", **attributes: object) -> str:
    """One element with escaped content; ``_`` in an attribute's name stands for ``-``, None leaves it out."""
    written = "".join(
        f" {key.replace('_', '-')}={quoteattr(_value(value))}" for key, value in attributes.items() if value is not None
    )
    return f"<{name}{written}>{content}</{name}>" if content else f"<{name}{written}/>"


def text(x: float, y: float, content: object, **attributes: object) -> str:
    """A text, shown as it is."""
    return element("text", escape(xml_text(content)), x=x, y=y, **attributes)


def tooltip(content: str) -> str:
    """What a browser shows when the mouse rests on the element this stands in."""
    return element("title", escape(xml_text(content)))


def picture(width: float, height: float, title: str, caption: str, body: Iterable[str]) -> str:
    """A whole SVG file on white ground, with a title and a line below it that explains the picture."""
    size = {"width": round(width), "height": round(height), "viewBox": f"0 0 {round(width)} {round(height)}"}
    parts = [
        tooltip(title),
        element("rect", width="100%", height="100%", fill="white"),
        text(24, 32, title, font_size=18, fill=INK),
        text(24, 52, caption, font_size=12, fill=FAINT_INK),
        *body,
    ]
    inside = "\n" + "\n".join(parts) + "\n"
    root = element(
        "svg", inside, xmlns="http://www.w3.org/2000/svg", **size, font_family=FONT_FAMILY, font_size=12, fill=INK
    )
    return f'<?xml version="1.0" encoding="UTF-8"?>\n{root}\n'


def _value(value: object) -> str:
    if isinstance(value, bool | int | str):
        return xml_text(value)
    return f"{float(value):.2f}".rstrip("0").rstrip(".")  # type: ignore[arg-type]
