"""How far a list of fits is, for people who wait for it."""

import sys
import time


class Progress:
    """Reports every finished fit on stderr: a bar on a terminal, lines elsewhere, nothing if not verbose.

    A ``total`` of 0 is one that is not known.
    """

    def __init__(self, verbose: int, total: int, title: str) -> None:
        self.verbose, self.total, self.title = verbose, total, title
        self.done, self.began = 0, time.perf_counter()

    def __call__(self, text: str) -> None:
        if not self.verbose:
            return
        self.done += 1
        of = f"/{self.total}" if self.total else ""
        head, seconds = f"{self.title}: {self.done}{of}", time.perf_counter() - self.began
        if sys.stderr.isatty() and self.total:
            bar = "#" * round(20 * self.done / self.total)
            end = "\n" if self.done == self.total else ""
            sys.stderr.write(f"\r\x1b[K{head} [{bar:20}] {text}  {seconds:.1f} s{end}")
        else:
            sys.stderr.write(f"{head}  {text}  {seconds:.1f} s\n")
        sys.stderr.flush()
