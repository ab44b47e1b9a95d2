"""Messages of the library, in the words of the command line: ``labels=`` is ``--labels`` there."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager


def flags_of(arguments: Sequence[str], **others: str) -> dict[str, str]:
    """Flag of every argument: ``--name`` with dashes for underscores, and those that are called otherwise."""
    return {name: f"--{name.replace('_', '-')}" for name in arguments} | others


@contextmanager
def in_flags(flags: Mapping[str, str]) -> Iterator[None]:
    """Raise what the user did wrong as a ValueError that names flags where the library names arguments."""
    try:
        yield
    except (ValueError, OSError) as error:
        raise ValueError(translate(str(error), flags)) from error


def translate(message: str, flags: Mapping[str, str]) -> str:
    """Write ``name=value`` as ``--name value``, and ``name=``, or ``name`` at the beginning, as ``--name``."""
    names = "|".join(map(re.escape, flags))

    def flag(match: re.Match[str]) -> str:
        name, only, follows = match.group(1, 2, 3)
        if only is not None:
            return f"{flags[name]} {only}"
        return flags[name] + (" " if follows and follows not in " ,.;:)" else "")

    message = re.sub(rf"^({names})(?=: | must )", lambda match: flags[match.group(1)], message)
    return re.sub(rf"\b({names})=(?:\[('[^']*')\]|(?=(.?)))", flag, message, flags=re.DOTALL)
