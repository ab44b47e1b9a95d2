"""Which labels depend on each other? A structured SVM that learns its label graph.

The labels of the toy data are decided together along four known edges; the other labels are on their own. The clique
generating machine starts without edges and adds two a round. Beside it: no edges, the Chow-Liu tree of the training
labels, and the true edges, which in practice nobody knows.

    python examples/learn_label_graph.py                    # pictures go to a new temporary folder
    python examples/learn_label_graph.py pictures           # ... to the folder pictures
    python examples/learn_label_graph.py --rows 1000        # fewer training rows: far more edges than are true
"""

import argparse
import importlib.util
import tempfile
from pathlib import Path

from comargin import CGMClassifier, StructuredSVMClassifier
from comargin.data import make_cgm_toy
from comargin.graphs import LabelGraph, chow_liu_tree
from comargin.metrics import hamming_loss

parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
parser.add_argument("folder", nargs="?", type=Path, help="where the pictures go; a new temporary folder if not given")
parser.add_argument("--rows", type=int, default=2000, help="training rows; 1000 more are held out")
options = parser.parse_args()

toy = make_cgm_toy(options.rows + 1000, seed=0)
X_train, X_test = toy.X[: options.rows], toy.X[options.rows :]
Y_train, Y_test = toy.Y[: options.rows], toy.Y[options.rows :]
names = toy.label_names
true_graph = LabelGraph.from_edges(toy.extra["edges"], label_names=names)
true_edges = set(map(tuple, true_graph.edges.tolist()))

models = {
    "no edges": StructuredSVMClassifier(graph="none", random_state=0),
    "Chow-Liu tree": StructuredSVMClassifier(graph="tree", random_state=0),
    "CGM": CGMClassifier(cliques_per_round=2, random_state=0),
    "the true edges": StructuredSVMClassifier(graph=true_graph, random_state=0),
}
for model in models.values():
    model.fit(X_train, Y_train)
cgm = models["CGM"]

print(f"{'round':>5}  {'edges added':38}{'objective':>10}{'wrong labels, training':>24}")
for k, step in enumerate(cgm.rounds_):
    added = ", ".join(f"{names[i]} - {names[j]}" for i, j in step.cliques) or "none, labels on their own"
    print(f"{k:5}  {added:38}{step.objective:10.3f}{step.hamming:24.2%}")
print(f"The last objective is certified: no weights on these edges have one below {cgm.dual_objective_:.4f}.")

learned = LabelGraph(cgm.label_graph_.weights, names)
true_names = {(names[i], names[j]) for i, j in true_edges}
print("\nlearned edges by the length of their weights")
for source, target, length in learned.top_edges():
    print(f"  {source} - {target}{length:10.2f}{'  true' if (source, target) in true_names else ''}")
print(f"  on their own: {', '.join(learned.isolated) or 'none'}")

print("\nwrong labels on rows held out")
for name, model in models.items():
    wrong, found = hamming_loss(Y_test, model.predict(X_test)), true_edges.intersection(model.cliques_)
    print(f"  {name:18}{wrong:8.2%}   ({len(model.cliques_)} edges, {len(found)} true)")
print(f"  labelings of CGM proved to be the best: {cgm.predict_map(X_test).certified:.0%}")

if all(importlib.util.find_spec(package) for package in ("plotly", "networkx")):
    from comargin.report import label_graph_figure, objective_figure, save_figure

    folder = options.folder or Path(tempfile.mkdtemp(prefix="comargin_"))
    folder.mkdir(parents=True, exist_ok=True)
    graphs = {"Chow-Liu tree": chow_liu_tree(Y_train, label_names=names), "learned": learned, "true": true_graph}
    figures = {
        "label_graph.html": label_graph_figure(graphs, frequencies=Y_train.mean(axis=0)),
        "objective.html": objective_figure({name: models[name] for name in ("no edges", "Chow-Liu tree", "CGM")}),
    }
    print("\npictures")
    for file, figure in figures.items():
        print(f"  {save_figure(figure, folder / file)}")
else:
    print("\nfor pictures: pip install 'comargin[report]'")
