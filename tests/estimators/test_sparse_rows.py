"""Estimators on sparse rows, such as counts of words: they stay sparse, and nothing else changes."""

from __future__ import annotations

import pickle
import subprocess
import sys
from typing import Any

import numpy as np
import pytest
from scipy import sparse

from prograd.sklearn import Classifier, Regressor
from prograd.sklearn.sparse_rows import SparseRows, lengths_for


def documents(rows: int, words: int, seed: int = 0, longest: int = 40) -> tuple[Any, np.ndarray]:
    """Counts of words, of which a few tell the class of a document."""
    rng = np.random.default_rng(seed)
    label = rng.integers(0, 5, rows)
    counts = rng.integers(longest // 4, longest, rows)
    columns = [
        np.unique(np.where(rng.random(n) < 0.3, label[i] * 20 + rng.integers(0, 20, n), rng.integers(100, words, n)))
        for i, n in enumerate(counts)
    ]
    offsets = np.concatenate([[0], np.cumsum([len(c) for c in columns])])
    made = sparse.csr_matrix((rng.integers(1, 4, offsets[-1]), np.concatenate(columns), offsets), (rows, words))
    return made, label


@pytest.mark.thorough
@pytest.mark.parametrize("engine", ["reference", "native"])
def test_documents_are_learned_as_well_as_if_they_were_dense(engine):
    if engine == "native":
        pytest.importorskip("llvmlite")
    x, y = documents(400, 600)
    asked: dict[str, Any] = dict(hidden_layer_sizes=64, batch_size=32, max_iter=8, random_state=1, engine=engine)
    one = Classifier(**asked).fit(x[:300], y[:300])
    other = Classifier(**asked).fit(x[:300].toarray(), y[:300])
    assert one.score(x[300:], y[300:]) > 0.9
    assert abs(one.score(x[300:], y[300:]) - other.score(x[300:].toarray(), y[300:])) < 0.03
    assert {state.name for state in one.run_.program.states} == {state.name for state in other.run_.program.states}


def test_longer_rows_are_predicted_and_learned_and_the_bits_of_others_stay():
    x, y = documents(120, 600)
    model = Classifier(16, max_iter=3, random_state=0, engine="reference").fit(x, y)
    before = model.predict_proba(x)
    rows = sparse.vstack([x[:3], sparse.csr_matrix(np.ones((1, 600)))]).tocsr()
    np.testing.assert_array_equal(model.predict_proba(rows)[:3], before[:3])
    np.testing.assert_array_equal(model.predict_proba(x), before)
    model = Classifier(16, max_iter=3, random_state=0, engine="reference", warm_start=True).fit(x, y)
    model.fit(rows, y[:4])
    again = pickle.loads(pickle.dumps(model))
    np.testing.assert_array_equal(again.predict_proba(rows), model.predict_proba(rows))


def test_early_stopping_weights_and_labels_take_sparse_rows():
    x, y = documents(200, 300)
    model = Classifier(16, early_stopping=True, max_iter=5, random_state=0, class_weight="balanced")
    assert model.fit(x, y, sample_weight=np.linspace(1, 2, 200)).n_iter_ <= 5
    labels = np.stack([y % 2, y > 2], axis=1).astype(int)
    assert Classifier(16, max_iter=2, random_state=0).fit(x, labels).predict(x).shape == (200, 2)
    numbers = Regressor(16, max_iter=2, random_state=0).fit(x, np.stack([y, y + 1.0], axis=1))
    assert numbers.predict(x).shape == (200, 2)


def test_a_missing_number_is_the_mean_of_its_column_with_its_zeros():
    x = sparse.csr_matrix(np.array([[1.0, 0, np.nan], [3, 2, 6], [0, 0, 3]]))
    rows = SparseRows(x)
    means = rows.means()
    np.testing.assert_allclose(means, [4 / 3, 2 / 3, 4.5])
    assert rows.filled(means).matrix.toarray()[0, 2] == np.float32(4.5)
    Classifier(4, max_iter=1, random_state=0).fit(x, [0, 1, 0]).predict(x)


def test_rows_without_anything_are_rows():
    x, y = documents(40, 200)
    x = sparse.vstack([x, sparse.csr_matrix((2, 200))]).tocsr()
    model = Classifier(8, max_iter=2, random_state=0).fit(x, np.append(y, [0, 1]))
    assert model.predict(sparse.csr_matrix((3, 200))).shape == (3,)


@pytest.mark.parametrize(
    ("longest", "lengths"),
    [(1, (1, 2)), (2, (1, 2)), (3, (1, 2, 4)), (100, (16, 32, 64, 128)), (128, (16, 32, 64, 128))],
)
def test_steps_are_compiled_for_a_few_lengths(longest, lengths):
    assert lengths_for(longest) == lengths


def test_a_program_of_ones_own_gets_dense_rows():
    from prograd import Program, adam, layers, ops

    def network(features: int, classes: int) -> Program:
        program = Program("own")
        x, y = program.input("x", "float32", ("rows", features)), program.input("y", "int64", ("rows",))
        scores = layers.dense(x, "output", classes)
        program.minimize(ops.softmax_cross_entropy(scores, y), adam(0.01))
        program.outputs(probabilities=ops.softmax(scores))
        return program

    x, y = documents(60, 200)
    model = Classifier(program=network, max_iter=2, random_state=0).fit(x, y)
    np.testing.assert_array_equal(model.predict(x), model.predict(x.toarray()))


MEMORY = """
import resource, sys
import numpy as np
sys.path.insert(0, "tests")
from estimators.test_sparse_rows import documents
from prograd.sklearn import Classifier
x, y = documents(4000, 30000, longest=60)
before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
Classifier(32, max_iter=1, random_state=0, engine="reference").fit(x, y).predict(x)
print((resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - before) // 1024)
"""


@pytest.mark.thorough
@pytest.mark.skipif(sys.platform != "linux", reason="elsewhere the peak has other units")
def test_rows_never_become_dense(request):
    """Dense, these rows take 480 MB in float32; the weights and their moments take 12."""
    asked = [sys.executable, "-c", MEMORY]
    done = subprocess.run(asked, capture_output=True, text=True, check=True, cwd=request.config.rootpath)
    assert int(done.stdout) < 150
