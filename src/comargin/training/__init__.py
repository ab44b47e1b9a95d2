"""Taggers: a model by name, made ready for the data at hand, tuned, fitted, cut, and kept with the names of its labels.

`train` does it all; `Tagger` is what it returns. `model_names` lists the models, `ModelRecipe` and `register_model` add
others.
"""

from ..baselines.chains import ChainEnsemble
from ..models import ModelRecipe, get_model, model_names, register_model
from ._folder import clear_checkpoint
from ._tagger import Tagger
from ._train import train
from ._warmup import warmup

__all__ = [
    "ChainEnsemble",
    "ModelRecipe",
    "Tagger",
    "clear_checkpoint",
    "get_model",
    "model_names",
    "register_model",
    "train",
    "warmup",
]
