"""Sinks of the events of a training: the places outside of a run where people watch it.

sink         the protocol of a sink, and the names under which it gets metrics
tensorboard  event files for TensorBoard
mlflow       runs of an MLflow server or database
wandb        runs of Weights & Biases
logger       a sink as a callback of a training from Python
opened       the sinks that a command asks for
"""
