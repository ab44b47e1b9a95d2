"""Multi-label data: readers, writers, conversion, a catalogue of known sets, and generators.

- _dataset.py: `Dataset` and its hash. _checks.py: checks before writing. _predictions.py: predictions.
- formats.py: `read`, `write`, `convert`. format_table.py: what is known of every format. _stream.py: `stream`.
- chunks.py: rows some at a time, columns by name. labels.py: what is a label, and lists of names against an indicator.
- sources.py: rows of a file or a known set, to learn from and to measure on. matching.py: as a fitted model takes them.
- _source.py: text files by lines or blocks. _numbers.py: text to float64. sparse_text.py: libsvm and XMC.
- _arff.py, _arff_header.py, _arff_plan.py, _arff_rows.py: Mulan and MEKA. _labels_xml.py: their lists of labels.
- _table.py: CSV of features. text_table.py: of texts and label lists. _json_lines.py: JSON Lines. parquet.py: Parquet.
- catalogue.py: known sets, some of them fetched. generators.py, _text_like.py: sets drawn from models.
"""

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
