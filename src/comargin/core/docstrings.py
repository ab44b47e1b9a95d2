"""Docstrings that say once what a base class and its subclasses have in common."""

import inspect
import re
import textwrap

# A line of names in braces.
_PLACEHOLDERS = re.compile(r"^( *)(\{\w+\}(?: \{\w+\})*)$", re.MULTILINE)


def complete_docstring(cls: type) -> None:
    """Replace each line ``{tol} {verbose}`` in the docstring of a class by the entries of these names in its bases.

    An entry is that of a Parameters or Attributes section, from the nearest base that has one. Text indented below the
    line continues the last entry.
    """
    text = vars(cls).get("__doc__")
    if text is None:  # none of its own, or python -OO
        return

    def entries(line: re.Match[str]) -> str:
        found = (_inherited_entry(cls, name) for name in re.findall(r"\w+", line[2]))
        return textwrap.indent("\n".join(found), line[1])

    cls.__doc__ = _PLACEHOLDERS.sub(entries, text)


def _inherited_entry(cls: type, name: str) -> str:
    """The line ``name : type`` and what is indented below it."""
    pattern = re.compile(rf"^(?:\w+, )*{name}(?:, \w+)* : .*(?:\n .*)*", re.MULTILINE)
    for base in cls.__mro__[1:]:
        entry = pattern.search(inspect.cleandoc(vars(base).get("__doc__") or ""))
        if entry:
            return entry[0]
    raise TypeError(f"the docstring of {cls.__name__} has {{{name}}}, but no base class documents {name}")
