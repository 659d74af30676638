"""Classifiers, regressors and pipelines of scikit-learn by skl2onnx, beside ONNX Runtime on both engines."""

# pyright: basic
# scikit-learn, skl2onnx and onnxruntime have no types here.

import warnings
from typing import Any

import numpy as np
import onnx
import onnxruntime as runtime
import pytest
import skl2onnx
import skl2onnx.common.data_types as types
from sklearn import (
    calibration,
    cluster,
    compose,
    decomposition,
    discriminant_analysis,
    ensemble,
    feature_selection,
    impute,
    linear_model,
    multiclass,
    naive_bayes,
    neighbors,
    neural_network,
    pipeline,
    preprocessing,
    svm,
    tree,
)

import prograd

ROWS = 64
DRAWN = np.random.default_rng(0)
X = DRAWN.standard_normal((200, 8)).astype(np.float32)
TARGET = (X @ np.arange(8) + np.sin(X[:, 0])).astype(np.float32)
CLASSES = np.digitize(X[:, 0] + X[:, 1] * X[:, 2], [-0.5, 0.5])
TWO = (CLASSES > 0).astype(int)
WORDS = np.array(["ape", "bee", "cat"])[CLASSES]
LINEAR = linear_model.LogisticRegression
PIPE = pipeline.make_pipeline

MODELS: dict[str, tuple[Any, Any]] = {
    "logistic": (LINEAR(), CLASSES),
    "logistic of two": (LINEAR(), TWO),
    "logistic of strings": (LINEAR(), WORDS),
    "linear": (linear_model.LinearRegression(), TARGET),
    "ridge": (linear_model.Ridge(), TARGET),
    "stochastic descent": (linear_model.SGDClassifier(loss="log_loss", random_state=0), CLASSES),
    "perceptron": (linear_model.Perceptron(), CLASSES),
    "vectors": (svm.SVC(), CLASSES),
    "vectors of two": (svm.SVC(kernel="poly", degree=2), TWO),
    "linear vectors": (svm.LinearSVC(), CLASSES),
    "vector regression": (svm.SVR(), TARGET),
    "sigmoid vector regression": (svm.NuSVR(kernel="sigmoid"), TARGET),
    "vectors of one class": (svm.OneClassSVM(), None),
    "tree": (tree.DecisionTreeClassifier(max_depth=5, random_state=0), CLASSES),
    "tree regression": (tree.DecisionTreeRegressor(max_depth=5, random_state=0), TARGET),
    "forest": (ensemble.RandomForestClassifier(12, max_depth=5, random_state=0), CLASSES),
    "forest of strings": (ensemble.RandomForestClassifier(12, max_depth=5, random_state=0), WORDS),
    "forest regression": (ensemble.RandomForestRegressor(12, max_depth=5, random_state=0), TARGET),
    "extra trees": (ensemble.ExtraTreesClassifier(7, random_state=0), TWO),
    "boosting": (ensemble.GradientBoostingClassifier(n_estimators=12, random_state=0), CLASSES),
    "boosting of two": (ensemble.GradientBoostingClassifier(n_estimators=12, random_state=0), TWO),
    "boosting regression": (ensemble.GradientBoostingRegressor(n_estimators=12, random_state=0), TARGET),
    "histograms": (ensemble.HistGradientBoostingClassifier(max_iter=5), CLASSES),
    "histogram regression": (ensemble.HistGradientBoostingRegressor(max_iter=5), TARGET),
    "boosted stumps": (ensemble.AdaBoostClassifier(n_estimators=5, random_state=0), CLASSES),
    "bagging": (ensemble.BaggingClassifier(n_estimators=4, random_state=0), CLASSES),
    "isolation": (ensemble.IsolationForest(n_estimators=6, random_state=0), None),
    "naive": (naive_bayes.GaussianNB(), CLASSES),
    "perceptrons": (neural_network.MLPClassifier((16,), max_iter=20, random_state=0), CLASSES),
    "discriminants": (discriminant_analysis.LinearDiscriminantAnalysis(), CLASSES),
    "neighbours": (neighbors.KNeighborsClassifier(3), CLASSES),
    "means": (cluster.KMeans(3, random_state=0), None),
    "one against the others": (multiclass.OneVsRestClassifier(LINEAR()), CLASSES),
    "calibrated": (calibration.CalibratedClassifierCV(LINEAR(), cv=2), CLASSES),
    "components": (PIPE(preprocessing.StandardScaler(), decomposition.PCA(3), LINEAR()), CLASSES),
    "normalised": (
        PIPE(preprocessing.MinMaxScaler(), impute.SimpleImputer(), preprocessing.Normalizer(), LINEAR()), CLASSES
    ),
    "binarised": (PIPE(preprocessing.Binarizer(), LINEAR()), CLASSES),
    "polynomials": (PIPE(preprocessing.PolynomialFeatures(2), linear_model.Ridge()), TARGET),
    "robust": (PIPE(preprocessing.RobustScaler(), linear_model.Lasso(0.1)), TARGET),
    "bins": (PIPE(preprocessing.KBinsDiscretizer(4, encode="onehot-dense"), LINEAR()), CLASSES),
    "best columns": (PIPE(feature_selection.SelectKBest(k=3), LINEAR()), CLASSES),
}  # fmt: skip

COLUMNS = {
    "columns of numbers": (types.Int64TensorType([None, 1]), CLASSES, LINEAR()),
    "columns before a forest": (
        types.Int64TensorType([None, 1]), CLASSES, ensemble.RandomForestClassifier(5, max_depth=4, random_state=0)
    ),
    "columns of strings": (types.StringTensorType([None, 1]), WORDS, LINEAR()),
}  # fmt: skip


def plain_node(*names: Any, **attributes: Any) -> Any:
    """Make a node of lists of plain numbers: skl2onnx 1.20 gives those of NumPy, which onnx 1.23 refuses."""
    lists = {key: np.array(value).tolist() for key, value in attributes.items() if isinstance(value, list)}
    return onnx.helper.make_node(*names, **attributes | lists)


@pytest.mark.parametrize("name", MODELS)
def test_a_model_agrees_with_onnx_runtime(name: str, monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr("skl2onnx.common._container.make_node", plain_node)
    model, target = MODELS[name]
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        model.fit(X) if target is None else model.fit(X, target)
        file = skl2onnx.to_onnx(model, X[:1], target_opset={"": 18, "ai.onnx.ml": 3})
    require_equal(file, {file.graph.input[0].name: X[:ROWS]})


@pytest.mark.parametrize("name", COLUMNS)
def test_a_pipeline_of_columns_agrees_with_onnx_runtime(name: str):
    pandas = pytest.importorskip("pandas")
    kind, values, last = COLUMNS[name]
    frame = pandas.DataFrame({"a": X[:, 0], "b": X[:, 1], "k": values})
    numbers = PIPE(impute.SimpleImputer(), preprocessing.StandardScaler())
    parts = [("n", numbers, ["a", "b"]), ("k", preprocessing.OneHotEncoder(handle_unknown="ignore"), ["k"])]
    model = PIPE(compose.ColumnTransformer(parts), last).fit(frame, TWO)
    inputs = [("a", types.FloatTensorType([None, 1])), ("b", types.FloatTensorType([None, 1])), ("k", kind)]
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        file = skl2onnx.convert_sklearn(model, initial_types=inputs, target_opset={"": 18, "ai.onnx.ml": 3})
    column = frame["k"].to_numpy().reshape(-1, 1)[:ROWS]
    column = column.astype(np.int64) if column.dtype.kind == "i" else column.astype(object)
    require_equal(file, {"a": X[:ROWS, :1], "b": X[:ROWS, 1:2], "k": column})


def require_equal(file: Any, feeds: dict[str, Any]) -> None:
    session = runtime.InferenceSession(file.SerializeToString(), providers=["CPUExecutionProvider"])
    wanted = session.run(None, feeds)
    program = prograd.from_onnx(file)
    strings = np.array(program.strings_of_model or ("",), object)
    codes = {text: code for code, text in enumerate(program.strings_of_model)}
    fed = {
        name: np.vectorize(codes.get, otypes=[np.int64])(array, -1) if array.dtype == object else array
        for name, array in feeds.items()
    }
    compiled = program.compile(**dict.fromkeys(program.symbols, ROWS))
    for engine in ("reference", "native"):
        found = prograd.Run(compiled, engine=engine).step(fed, entry="predict")
        for name, each in zip(program.outputs_of_module, wanted, strict=True):
            array = np.array([list(row.values()) for row in each], np.float32) if isinstance(each, list) else each
            own = strings[found[name]] if array.dtype == object else found[name]
            assert own.shape == array.shape
            if array.dtype.kind == "f":
                np.testing.assert_allclose(own, array, rtol=1e-4, atol=1e-5)
            else:
                np.testing.assert_array_equal(own, array)
