"""Taggers: a model by name, made ready for the data at hand, tuned, fitted, cut, and kept with the names of its labels.

`train` does it all; `Tagger` is what it returns. `audit` looks for labels that are wrong. `model_names` lists the
models, `ModelRecipe` and `register_model` add others.

=================  ============================================================================
`_train.py`        `train`: the order of it all, and what the tagger says about its training
`building.py`      from a recipe to an estimator with its parameters; `compare` uses it too
`_audit.py`        `audit`: from rows with labels to suspicious labels, all in names
`_tagger.py`       `Tagger`: predict, measure, explain, save and load
`_folder.py`       the folder of a checkpoint: a `Memory` with a file for every result
`identity.py`      hashes that tell whether a folder or a results file is of the same training
`_warmup.py`       `warmup`: compile all loops
=================  ============================================================================
"""

from ..baselines import ChainEnsemble, KnownLabelsClassifier
from ..models import ModelRecipe, get_model, model_names, register_model
from ._audit import Audit, audit
from ._folder import clear_checkpoint
from ._tagger import Tagger
from ._train import train
from ._warmup import warmup

__all__ = [
    "Audit",
    "ChainEnsemble",
    "KnownLabelsClassifier",
    "ModelRecipe",
    "Tagger",
    "audit",
    "clear_checkpoint",
    "get_model",
    "model_names",
    "register_model",
    "train",
    "warmup",
]
