"""Cuts of MAPIE's multi-label risk control, for bench_guarantees; runs in an environment that has MAPIE 1.

Usage: python _mapie_cuts.py in.npz out.npz. The input holds p, Y (all rows), draws (rows of each calibration), target,
risk and delta; the output a cut for each draw and method. MAPIE computes every row's losses once per set, since the
losses of a calibration are those of its rows.
"""

from __future__ import annotations

import sys
import warnings

import numpy as np
from mapie.risk_control import MultiLabelClassificationController

METHODS = {
    "recall": (("rcps", "hoeffding"), ("rcps", "bernstein"), ("rcps", "wsr")),
    "precision": (("ltt", None),),
}


def main() -> None:
    given = dict(np.load(sys.argv[1]))
    risk, target, delta = str(given["risk"]), float(given["target"]), float(given["delta"])
    out = {}
    for method, bound in METHODS[risk]:
        controller = MultiLabelClassificationController(
            predict_function=lambda X: X,
            risk=risk,
            method=method,
            target_level=target,
            confidence_level=1.0 - delta,
            rcps_bound=bound,
        )
        controller.compute_risks(given["p"], given["Y"])
        losses = controller._risks
        cuts = []
        # wsr has a table of rows x cuts x bounds: seconds a draw
        draws = given["draws"][: int(given["most_wsr"])] if bound == "wsr" else given["draws"]
        for rows in draws:
            controller._risks = losses[rows]
            with warnings.catch_warnings():
                warnings.simplefilter("error", UserWarning)  # "cannot be controlled"
                try:
                    controller.compute_best_predict_param()
                    cuts.append(float(controller.best_predict_param[0]))
                except UserWarning:
                    cuts.append(np.nan)
        out[bound or method] = np.array(cuts)
    np.savez(sys.argv[2], **out)


if __name__ == "__main__":
    main()
