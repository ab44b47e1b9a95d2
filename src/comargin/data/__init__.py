"""Multi-label data: readers, writers, conversion, a catalogue of known sets, and generators."""

from ._dataset import DataFormatError, Dataset, fingerprint
from ._predictions import PredictionWriter
from ._stream import stream
from .catalogue import ClassSignatures, DatasetInfo, DatasetUnavailableError, list_datasets, load, load_signatures
from .chunks import Chunk
from .formats import FORMATS, convert, detect_format, read, write
from .generators import make_cgm_toy, make_correlated, make_text_like

__all__ = [
    "FORMATS",
    "Chunk",
    "ClassSignatures",
    "DataFormatError",
    "Dataset",
    "DatasetInfo",
    "DatasetUnavailableError",
    "PredictionWriter",
    "convert",
    "detect_format",
    "fingerprint",
    "list_datasets",
    "load",
    "load_signatures",
    "make_cgm_toy",
    "make_correlated",
    "make_text_like",
    "read",
    "stream",
    "write",
]
