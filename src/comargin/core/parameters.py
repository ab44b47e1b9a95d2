"""The ``__init__`` of estimators, made from the parameters that their classes declare."""

from dataclasses import dataclass, field
from typing import Any, dataclass_transform


@dataclass_transform(eq_default=False, kw_only_default=True, field_specifiers=(field,))
class DeclaredParameters:
    """Base of estimators whose parameters are the fields of a dataclass.

    A parameter is an annotated attribute with its default, ``alpha: float = 1.0``; it is given by keyword, or also by
    position with ``alpha: float = field(default=1.0, kw_only=False)``. A subclass inherits the parameters of its bases,
    declares one anew to change its default, and drops one with ``alpha: float = field(init=False)``.

    An ``__init__`` that a class or one of its bases writes itself stays as it is.
    """

    def __init_subclass__(cls, **kwargs: Any) -> None:
        super().__init_subclass__(**kwargs)
        owner = next(base for base in cls.__mro__ if "__init__" in vars(base))
        if owner is object or "__dataclass_fields__" in vars(owner):
            written = cls.__doc__
            dataclass(eq=False, repr=False, kw_only=True)(cls)
            cls.__doc__ = written  # a dataclass without a docstring is given its signature
