"""The domain ai.onnx.ml: models and transformations of scikit-learn, LightGBM and XGBoost.

classes        labels and scores of classifiers
encoders       codes and ones of categories, dictionaries of classes
forests        the nodes of tree ensembles as arrays
linear_models  linear models, scalers, imputers and normalizers
svm            support vector machines
trees          the predictions of tree ensembles
"""

from typing import Final

from compiler.frontends.onnx.node import Mapping
from compiler.onnx_operators.ml import encoders, linear_models, svm, trees

IMPORTS: Final[dict[str, Mapping]] = encoders.IMPORTS | linear_models.IMPORTS | svm.IMPORTS | trees.IMPORTS
