"""``python -m comargin`` is the command ``comargin``."""

from .cli import main

main()
