"""Write a CSV file of posts of a garden forum with their tags: made-up texts to try a tagger on.

Run: python examples/make_posts.py posts.csv [number of posts [seed]]; without a file it shows three posts.

Columns are ``number``, ``body`` and ``tags``. Tags come together: posts about tomatoes are often about blight.
Some words tell a tag, most tell nothing, and some posts lack a tag that their author forgot.
"""

from __future__ import annotations

import csv
import sys
from typing import TextIO

import numpy as np

# tag: (share of the posts, words that tell it)
TAGS = {
    "tomatoes": (0.16, "tomato tomatoes truss beefsteak cherry vine cordon"),
    "blight": (0.06, "blight spots spores mildew fungus rot brown lesions"),
    "greenhouse": (0.09, "greenhouse glass polytunnel vents shading benches"),
    "seeds": (0.13, "seed seeds sowing germinate packet tray seedlings"),
    "compost": (0.10, "compost heap peat mulch humus worms rotting"),
    "pruning": (0.08, "prune pruning secateurs cut branches shoots spur"),
    "apples": (0.07, "apple apples orchard rootstock espalier cider pips"),
    "roses": (0.09, "rose roses climber rambler blooms petals scent"),
    "aphids": (0.07, "aphids greenfly ladybirds sticky curled honeydew"),
    "slugs": (0.08, "slugs snails slime pellets holes beer night"),
    "watering": (0.12, "water watering hose drip can dry drought"),
    "lawn": (0.10, "lawn grass mower moss scarify turf edges"),
    "soil": (0.12, "soil clay sandy loam drainage dig acid lime"),
    "bees": (0.05, "bees hive pollen pollinators nectar bumblebee"),
    "herbs": (0.07, "basil thyme mint parsley rosemary herbs sage"),
    "ponds": (0.04, "pond frogs lilies liner newts algae fish"),
    "tools": (0.08, "spade fork rake trowel handle sharpen blade shed"),
    "winter": (0.09, "frost winter fleece hardy snow cold protect"),
    "potatoes": (0.08, "potato potatoes tubers chitting earthing spuds"),
    "containers": (0.09, "pot pots container balcony terracotta basket"),
}
# tag: tags that often come with it, and how often
TOGETHER = {
    "tomatoes": {"blight": 0.25, "greenhouse": 0.35, "watering": 0.3},
    "potatoes": {"blight": 0.35, "soil": 0.25},
    "apples": {"pruning": 0.45, "bees": 0.15},
    "roses": {"pruning": 0.4, "aphids": 0.35},
    "seeds": {"greenhouse": 0.2, "compost": 0.2},
    "herbs": {"containers": 0.4},
    "containers": {"watering": 0.35},
    "lawn": {"tools": 0.2, "soil": 0.15},
    "winter": {"greenhouse": 0.15},
}
PLAIN = """
    i we my the a an this that last next year week summer spring since when before after with without from into for
    about really quite never always often maybe think found tried wonder anyone advice please help thanks question
    good bad small large old new green yellow leaves plant plants garden bed corner wall sun shade south north bought
    grew looks like seems wrong right best way much many few how what why where should would could have has had been
"""
FORGOTTEN = 0.05


def draw_tags(rng: np.random.Generator) -> list[str]:
    """Tags of one post, in the order of ``TAGS``."""
    names = list(TAGS)
    shares = np.array([share for share, _ in TAGS.values()])
    chosen = {names[rng.choice(len(names), p=shares / shares.sum())]}
    if rng.random() < 0.35:
        chosen.add(names[rng.choice(len(names), p=shares / shares.sum())])
    for tag in sorted(chosen):
        chosen |= {other for other, often in TOGETHER.get(tag, {}).items() if rng.random() < often}
    return [name for name in names if name in chosen]


def draw_body(tags: list[str], rng: np.random.Generator) -> str:
    """Words of one post: some of each tag, the rest plain."""
    words = list(rng.choice(PLAIN.split(), size=rng.integers(12, 40)))
    for tag in tags:
        telling = TAGS[tag][1].split()
        words += list(rng.choice(telling, size=rng.integers(1, 4)))
    stray = list(TAGS)[rng.integers(len(TAGS))]  # a word of something else altogether
    words.append(str(rng.choice(TAGS[stray][1].split())))
    rng.shuffle(words)
    cut = rng.integers(5, len(words))
    return f"{' '.join(words[:cut]).capitalize()}. {' '.join(words[cut:]).capitalize()}{rng.choice(['.', '?', '!'])}"


def write_posts(file: TextIO, n_posts: int, seed: int = 0) -> None:
    """Write a table of posts."""
    rng = np.random.default_rng(seed)
    table = csv.writer(file, lineterminator="\n")
    table.writerow(["number", "body", "tags"])
    for number in range(n_posts):
        tags = draw_tags(rng)
        body = draw_body(tags, rng)
        table.writerow([number, body, ";".join(tag for tag in tags if rng.random() >= FORGOTTEN)])


def main(path: str = "", n_posts: int = 20000, seed: int = 0) -> None:
    if not path:
        write_posts(sys.stdout, 3)
        return
    with open(path, "w", newline="", encoding="utf-8") as file:
        write_posts(file, n_posts, seed)
    print(f"{path}: {n_posts} posts, {len(TAGS)} tags")


if __name__ == "__main__":
    main(*sys.argv[1:2], *map(int, sys.argv[2:4]))
