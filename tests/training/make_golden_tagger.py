"""Write the tagger that all later versions must load: python tests/training/make_golden_tagger.py, once per release."""

import json
from pathlib import Path

import numpy as np
import scipy.sparse as sp

from comargin import __version__
from comargin.data import Dataset
from comargin.training import train

HERE = Path(__file__).parent
NEW = ["a red wine", "white bread and black tea", "nothing of the kind", ""]


def main() -> None:
    rng = np.random.default_rng(0)
    words = ("red wine", "white wine", "rye bread", "white bread", "green tea", "black tea")
    texts = [" and ".join(rng.choice(words, size=2)) for _ in range(40)]
    Y = np.array([[word in text for word in ("wine", "bread", "tea")] for text in texts]).astype(np.int32)
    data = Dataset(texts, sp.csr_array(Y), (), ("wine", "bread", "tea"), "table")
    tagger = train(data, params={"C": 1.0}, reading={"text": "body", "labels": "tags", "sep": "|"})
    version = ".".join(__version__.split(".")[:2])
    tagger.save(HERE / f"golden-{version}-tagger.cmg")
    expected = {
        "label_names": list(tagger.label_names),
        "reading": tagger.reading,
        "model": tagger.facts["model"],
        "texts": NEW,
        "labels": tagger.predict(NEW).toarray().tolist(),
        "scores": tagger.scores(NEW).tolist(),
    }
    (HERE / f"golden-{version}-tagger.json").write_text(json.dumps(expected, indent=1) + "\n", encoding="utf-8")


if __name__ == "__main__":
    main()
