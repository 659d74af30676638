"""Estimators beside scikit-learn's perceptrons on ten tables: python benchmarks/applications/tables.py [WORD …].

Six tables are those of scikit-learn; palmerpenguins, vega_datasets and statsmodels ship the others, which needs
`pip install palmerpenguins vega_datasets statsmodels`. Every row is predicted once for each of three seeds, by
five-fold cross-validation: accuracy for classes, R² for numbers. Both get the same folds and seeds, and no other
parameter, as in a first attempt. Numbers are scaled for both. Frames with classes and gaps go into prograd as they are;
scikit-learn gets them by OneHotEncoder and SimpleImputer.

"MLP, scaled target" scales the numbers that are predicted too, as prograd does by itself. The difference is that of the
means, and its noise two standard errors of the 15 paired differences. WORD chooses tables; `--page` writes the table
of docs/estimators.md.
"""

import argparse
import re
import warnings
from pathlib import Path

import numpy as np
from sklearn import datasets
from sklearn.compose import ColumnTransformer, TransformedTargetRegressor, make_column_selector
from sklearn.impute import SimpleImputer
from sklearn.model_selection import KFold, StratifiedKFold, cross_val_score
from sklearn.neural_network import MLPClassifier, MLPRegressor
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import OneHotEncoder, StandardScaler

from prograd.sklearn import Classifier, Regressor

PAGE = Path(__file__).parents[2] / "docs/estimators.md"
SEEDS = range(3)


def of_scikit_learn(name):
    """Return rows and targets of a table of scikit-learn."""
    return getattr(datasets, f"load_{name}")(return_X_y=True)


def penguins(name):
    from palmerpenguins import load_penguins

    frame = load_penguins()
    return frame.drop(columns="species"), frame["species"].to_numpy()


def cars(name):
    from vega_datasets import data

    frame = data.cars().dropna(subset="Miles_per_Gallon").reset_index(drop=True)
    frame["Year"] = frame["Year"].dt.year.astype(float)
    return frame.drop(columns=["Name", "Miles_per_Gallon"]), frame["Miles_per_Gallon"].to_numpy()


def election(name):
    from statsmodels.datasets import anes96

    frame = anes96.load_pandas().data
    return frame.drop(columns="vote").to_numpy(), frame["vote"].to_numpy().astype(int)


def affairs(name):
    from statsmodels.datasets import fair

    frame = fair.load_pandas().data
    return frame.drop(columns="affairs").to_numpy(), (frame["affairs"] > 0).to_numpy()


TABLES = dict.fromkeys(("iris", "wine", "breast_cancer", "digits", "diabetes", "linnerud"), of_scikit_learn) | {
    "penguins": penguins,
    "cars": cars,
    "election": election,
    "affairs": affairs,
}


def main():
    """Print the table, or write it into the page."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("tables", nargs="*", choices=[*TABLES, []], metavar="WORD")
    parser.add_argument("--page", action="store_true")
    asked = parser.parse_args()
    warnings.simplefilter("ignore")  # of scikit-learn, where 200 epochs are too few
    lines = [row(name) for name in asked.tables or TABLES]
    head = [
        "| table | rows | measure | MLP | MLP, scaled target | prograd | difference | noise |",
        "| --- | ---: | --- | ---: | ---: | ---: | ---: | ---: |",
    ]
    text = "\n".join(head + lines) + "\n"
    print(text)
    if asked.page:
        page = PAGE.read_text()
        PAGE.write_text(re.sub(r"\| table \| rows .*?\n(?=\n)", lambda _: text, page, count=1, flags=re.DOTALL))


def row(name):
    """Return the line of a table."""
    x, y = TABLES[name](name)
    is_classes = np.asarray(y).dtype.kind in "biUO" or name in ("iris", "wine", "breast_cancer", "digits")
    scores = {way: score(way, x, y, is_classes) for way in ("mlp", "scaled", "prograd")}
    best = max((scores["mlp"], scores["scaled"]), key=np.mean)
    difference = scores["prograd"] - best
    noise = 2 * difference.std(ddof=1) / np.sqrt(len(difference))
    means = [f"{found.mean():.3f}" for found in (scores["mlp"], scores["scaled"], scores["prograd"])]
    means[1] = "" if is_classes else means[1]
    what = "accuracy" if is_classes else "R²"
    title = name.replace("_", " ")
    return f"| {title} | {len(y)} | {what} | {' | '.join(means)} | {difference.mean():+.3f} | {noise:.3f} |"


def score(way, x, y, is_classes):
    """Return the scores of all folds and seeds."""
    found = []
    for seed in SEEDS:
        folds = (StratifiedKFold if is_classes else KFold)(5, shuffle=True, random_state=seed)
        found.extend(cross_val_score(estimator(way, x, seed, is_classes), x, y, cv=folds, error_score="raise"))
    return np.array(found)


def estimator(way, x, seed, is_classes):
    """Return an estimator for rows, with the steps that it needs before it."""
    if way == "prograd":
        own = (Classifier if is_classes else Regressor)(random_state=seed)
        return own if is_frame(x) else make_pipeline(StandardScaler(), own)
    network = (MLPClassifier if is_classes else MLPRegressor)(random_state=seed)
    made = make_pipeline(encoder() if is_frame(x) else StandardScaler(), network)
    if is_classes or way == "mlp":
        return made
    return TransformedTargetRegressor(made, transformer=StandardScaler())


def is_frame(x):
    return hasattr(x, "columns")


def encoder():
    return ColumnTransformer(
        [
            ("numbers", make_pipeline(SimpleImputer(), StandardScaler()), make_column_selector(dtype_include="number")),
            ("classes", OneHotEncoder(handle_unknown="ignore"), make_column_selector(dtype_exclude="number")),
        ]
    )


if __name__ == "__main__":
    main()
