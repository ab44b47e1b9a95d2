"""Curves of a fit: objectives against epochs or seconds, measures against the number of cliques."""

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from .theme import COLORS, SYMBOLS, Figure, finite, measured_axis, named, new_figure, number, plain

_TIME_TITLES = {"n_iter": "Epochs", "seconds": "Seconds"}
_SHOWN = ("objective", "gap")
_PANELS_PER_ROW = 4
_MARGINS = {"l": 64, "r": 24, "t": 84, "b": 56}
_ROW_HEIGHT = 300


def objective_figure(
    fits: Mapping[str, Any], *, x: str = "n_iter", show: str = "objective", title: str | None = None
) -> Figure:
    """Draw how fits converge: primal and dual objectives, or the gaps between them.

    Parameters
    ----------
    fits : mapping of str to estimator or sequence of Checkpoint
        Fitted estimators with a ``history_``, or such histories (records with ``n_iter``, ``seconds``, ``primal``
        and ``dual``), with their names.
    x : {"n_iter", "seconds"}, default="n_iter"
        What the objectives are drawn against.
    show : {"objective", "gap"}, default="objective"
        The primal as a solid and the dual as a dotted line of the same colour, or the duality gap relative to
        the absolute primal on a logarithmic axis, where equal steps mean a linear rate of convergence. A gap
        below rounding (2.2e-16) is drawn there. Duals far below all primals (the first ones of a fit, or of a
        round of clique generation) are outside the range shown at first.
    title : str or None, default=None
        Title of the figure.

    Examples
    --------
    >>> from comargin import M3LClassifier
    >>> X, Y = [[1.0, 0.2], [-1.0, 0.4], [0.3, -1.0]], [[1, 0], [0, 1], [1, 1]]
    >>> fits = {f"C = {C}": M3LClassifier(C=C).fit(X, Y) for C in (0.1, 1.0)}
    >>> figure = objective_figure(fits)
    >>> [trace.name for trace in figure.data]
    ['C = 0.1', 'C = 0.1, dual', 'C = 1.0', 'C = 1.0, dual']
    """
    if x not in _TIME_TITLES:
        raise ValueError(f"x must be one of {', '.join(map(repr, _TIME_TITLES))}, got {x!r}")
    if show not in _SHOWN:
        raise ValueError(f"show must be one of {', '.join(map(repr, _SHOWN))}, got {show!r}")
    histories = {}
    for name, fit in named(fits, "fits", "fitted estimators or histories").items():
        if hasattr(fit, "fit") and not hasattr(fit, "history_"):
            raise ValueError(f"fits[{name!r}] has no history_: it must be a fitted estimator or a history")
        history = getattr(fit, "history_", fit)
        histories[name] = _columns(history, ("n_iter", "seconds", "primal", "dual"), f"fits[{name!r}]")
    curves = []  # number of the fit, name, values, dash
    for k, (name, history) in enumerate(histories.items()):
        primal, dual = history["primal"], history["dual"]
        if show == "gap":
            curves.append((k, plain(name), _relative_gap(primal, dual), "solid"))
        else:
            curves += [(k, plain(name), primal, "solid"), (k, f"{plain(name)}, dual", dual, "dot")]
    if show == "gap":
        caption = "Primal minus dual, relative to the primal: how far a fit can be from its optimum."
        default, y_axis = "Duality gap", measured_axis("Relative gap", type="log", exponentformat="power")
        drawn = np.log10([value for _, _, values, _ in curves for value in values if np.isfinite(value)])
        if drawn.size and np.ptp(drawn) > 2:  # enough powers of ten for a tick at each and none between
            y_axis["dtick"] = 1
    else:
        caption = "Solid: primal. Dotted: dual, a lower bound of the optimum."
        default, y_axis = "Objective", measured_axis("Objective", range=_objective_range(histories))
    figure = new_figure(
        f"{default} against {_TIME_TITLES[x].lower()}" if title is None else title,
        caption,
        height=460,
        margin=_MARGINS,
        hovermode="closest",
        showlegend=True,
        legend={"orientation": "v", "x": 1.01, "y": 1, "xanchor": "left", "yanchor": "top"},
        template=None,
        xaxis=measured_axis(_TIME_TITLES[x], rangemode="tozero"),
        yaxis=y_axis,
    )
    texts = [_history_texts(name, history) for name, history in histories.items()]
    times = [finite(history[x]) for history in histories.values()]
    for k, label, values, dash in curves:
        color, symbol = COLORS[k % len(COLORS)], SYMBOLS[k // len(COLORS) % len(SYMBOLS)]
        figure.add_scatter(
            x=times[k],
            y=finite(values),
            mode="lines+markers",
            name=label,
            legendgroup=str(k),
            hovertext=texts[k],
            hoverinfo="text",
            line={"color": color, "width": 2, "dash": dash},
            marker={"color": color, "symbol": symbol, "size": 5 if dash == "solid" else 4},
            showlegend=dash == "solid",
        )
    return figure


def rounds_figure(
    rounds: Sequence[Any], measures: Mapping[str, Any] | None = None, *, title: str | None = None
) -> Figure:
    """Draw the effect of each round of clique generation: measures against the number of cliques, a panel each.

    Parameters
    ----------
    rounds : sequence of records
        One record per round with ``n_cliques``, ``objective``, ``gap``, ``hamming`` and ``seconds``: ``rounds_`` of
        a fitted ``CGMClassifier``. The objective, with its certified lower bound (objective minus gap) as a dotted
        line, and the Hamming loss on the training rows are the first two panels.
    measures : mapping of str to sequence of float or None, default=None
        More panels: names and values, one per round, e.g. micro-F1 on test rows. A value of nan is left out.
    title : str or None, default=None
        Title of the figure.

    Examples
    --------
    >>> from typing import NamedTuple
    >>> class Round(NamedTuple):
    ...     n_cliques: int
    ...     objective: float
    ...     gap: float
    ...     hamming: float
    ...     seconds: float
    >>> rounds = [Round(0, 0.9, 0.01, 0.10, 0.2), Round(2, 0.5, 0.01, 0.04, 0.5), Round(4, 0.4, 0.01, 0.02, 0.9)]
    >>> figure = rounds_figure(rounds, {"test micro-F1": [0.81, 0.90, 0.93]})
    >>> [note.text for note in figure.layout.annotations]
    ['Objective', 'Hamming loss, training', 'test micro-F1']
    """
    fields = _columns(rounds, ("n_cliques", "objective", "gap", "hamming", "seconds"), "rounds")
    panels = {"Objective": fields["objective"], "Hamming loss, training": fields["hamming"]}
    more = {} if measures is None else named(measures, "measures", "sequences of one number per round")
    for name, values in more.items():
        if name in panels:
            raise ValueError(f"measures must not be named {name!r}: a panel has that name already")
        numbers = np.asarray(values)
        if numbers.shape != fields["objective"].shape or numbers.dtype.kind not in "biuf":
            raise ValueError(
                f"measures[{name!r}] must be {len(rounds)} numbers, one per round, "
                f"got shape {numbers.shape}, dtype {numbers.dtype}"
            )
        panels[name] = numbers.astype(np.float64)
    from plotly.subplots import make_subplots

    n_rows = -(-len(panels) // _PANELS_PER_ROW)
    columns = -(-len(panels) // n_rows)
    gaps = {"horizontal_spacing": 0.2 / columns, "vertical_spacing": 0.25 / n_rows}
    figure = new_figure(
        "Measures against the number of cliques" if title is None else title,
        "Each point is one round of clique generation. Dotted: lower bound of the round's optimum.",
        height=n_rows * _ROW_HEIGHT + 120,
        margin={**_MARGINS, "t": _MARGINS["t"] + 24},  # room for the names of the panels
        hovermode="closest",
        showlegend=False,
    )
    make_subplots(n_rows, columns, figure=figure, **gaps)
    x_values = finite(fields["n_cliques"])
    tick = 1 if float(np.ptp(fields["n_cliques"])) <= 10 else None
    for k, (name, values) in enumerate(panels.items(), start=1):
        row, column = divmod(k - 1, columns)
        place = {"row": row + 1, "col": column + 1}
        color = COLORS[(k - 1) % len(COLORS)]
        figure.add_scatter(
            x=x_values,
            y=finite(values),
            mode="lines+markers",
            name=plain(name),
            line={"color": color, "width": 2},
            marker={"color": color, "size": 6},
            text=_round_texts(name, values, fields),
            hoverinfo="text",
            **place,
        )
        if k == 1:
            bound = {"y": finite(fields["objective"] - fields["gap"]), "name": "lower bound", "hoverinfo": "skip"}
            dotted = {"color": color, "width": 2, "dash": "dot"}
            figure.add_scatter(x=x_values, mode="lines", line=dotted, **bound, **place)
        figure.update_xaxes(measured_axis("Cliques", dtick=tick), **place)
        figure.update_yaxes(measured_axis(), **place)
        corner = {"xref": "x domain", "yref": "y domain", "x": 0, "xanchor": "left", "y": 1, "yanchor": "bottom"}
        figure.add_annotation(text=plain(name), showarrow=False, yshift=6, font={"size": 13}, **corner, **place)
    return figure


def _columns(records: Any, fields: tuple[str, ...], argument: str) -> dict[str, np.ndarray]:
    """Columns of a non-empty sequence of records."""
    expected = f"{argument} must be a non-empty sequence of records with {', '.join(fields)}"
    if not isinstance(records, Sequence) or isinstance(records, str):
        raise ValueError(f"{expected}, got a {type(records).__name__}")
    if not records:
        raise ValueError(f"{expected}, got an empty one")
    for k, record in enumerate(records):
        missing = [field for field in fields if not hasattr(record, field)]
        if missing:
            raise ValueError(f"{expected}, but record {k}, a {type(record).__name__}, has no {', '.join(missing)}")
    return {field: np.array([getattr(record, field) for record in records], dtype=np.float64) for field in fields}


def _objective_range(histories: dict[str, dict[str, np.ndarray]]) -> list[float] | None:
    """Range of all primals and last duals, and as much again below it for the duals on their way up."""
    primals, duals = (np.concatenate([history[of] for history in histories.values()]) for of in ("primal", "dual"))
    ends = np.array([history["dual"][-1] for history in histories.values()])
    primals, duals, ends = (values[np.isfinite(values)] for values in (primals, duals, ends))
    if not primals.size:
        return None  # plotly's own choice
    high, low = primals.max(), np.concatenate([primals, ends]).min()
    span = (high - low) or abs(high) or 1.0
    low = max(min(low, duals.min(initial=low)), low - span)
    margin = 0.05 * (high - low or span)
    return [float(low - margin), float(high + margin)]


def _relative_gap(primal: np.ndarray, dual: np.ndarray) -> np.ndarray:
    """(P - D) / |P|, never below rounding; nan where it is not defined."""
    gap = (primal - dual) / np.where(primal != 0, np.abs(primal), np.nan)
    return np.asarray(np.where(np.isfinite(gap), np.maximum(gap, np.finfo(np.float64).eps), np.nan))


def _history_texts(name: str, history: dict[str, np.ndarray]) -> list[str]:
    rows = zip(*(history[field] for field in ("n_iter", "seconds", "primal", "dual")), strict=True)
    return [
        f"<b>{plain(name)}</b><br>epoch {n_iter:.0f}, {number(seconds)} s<br>primal {primal:.6g}<br>dual {dual:.6g}"
        f"<br>gap {primal - dual:.2g}"
        for n_iter, seconds, primal, dual in rows
    ]


def _round_texts(name: str, values: np.ndarray, fields: dict[str, np.ndarray]) -> list[str]:
    rows = zip(values, fields["n_cliques"], fields["seconds"], strict=True)
    return [
        f"<b>round {k}</b><br>{plain(name)} {value:.6g}<br>{n_cliques:.0f} cliques, {number(seconds)} s"
        for k, (value, n_cliques, seconds) in enumerate(rows)
    ]
