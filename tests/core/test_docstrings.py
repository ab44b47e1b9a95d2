"""Entries of shared parameters in the docstrings of the learners."""

import inspect
import subprocess
import sys

import pytest

from comargin import M3LClassifier, RankCVMClassifier
from comargin.core import MultilabelClassifier


class Parent(MultilabelClassifier):
    """A base.

    Parameters
    ----------
    tol : float
        Of the parent.
    a, b : int
        Two of one kind,
        in two lines.

    Attributes
    ----------
    coef_ : ndarray
        Weights.
    """


def test_placeholders_become_the_entries_of_the_nearest_base():
    class Child(Parent):
        r"""A learner with :math:`\{-1, 1\}`.

        Parameters
        ----------
        C : {"one", "two"}
            ``{0: w}`` as written.
        {tol} {verbose}
            In two ways.
        {b}
        """

    assert inspect.getdoc(Child) == "\n".join(
        [
            r"A learner with :math:`\{-1, 1\}`.",
            "",
            "Parameters",
            "----------",
            'C : {"one", "two"}',
            "    ``{0: w}`` as written.",
            "tol : float",
            "    Of the parent.",
            "verbose : int, default=0",
            "    1 shows a progress bar with the current gap.",
            "    In two ways.",
            "a, b : int",
            "    Two of one kind,",
            "    in two lines.",
        ]
    )


def test_unknown_placeholder_is_an_error():
    with pytest.raises(TypeError, match=r"docstring of Child has \{nothing\}, but no base class documents nothing"):

        class Child(Parent):
            """A learner.

            Parameters
            ----------
            {tol} {nothing}
            """


def test_class_without_a_docstring_stays_without():
    class Child(Parent):
        pass

    assert vars(Child).get("__doc__") is None


def test_help_has_the_full_text():
    assert "callback : callable, default=None\n    Called with every ``Checkpoint(" in inspect.getdoc(M3LClassifier)
    assert "kernel matrix is formed.\ngamma : {" in inspect.getdoc(RankCVMClassifier)


def test_everything_is_imported_without_docstrings():
    code = "import comargin; print([getattr(comargin, name).__doc__ for name in ('M3LClassifierCV', 'CGMClassifier')])"
    done = subprocess.run([sys.executable, "-OO", "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout == "[None, None]\n"
