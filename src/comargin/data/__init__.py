"""Multi-label data: readers, writers, conversion, a catalogue of known sets, and generators."""

from ._dataset import DataFormatError, Dataset

__all__ = ["DataFormatError", "Dataset"]
