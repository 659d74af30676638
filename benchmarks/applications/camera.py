"""A camera's classifier beside TensorFlow: python benchmarks/applications/camera.py [--size 224] [--crops 400].

Both train a head of two layers on the frozen features of MobileNetV2 with 0.35 of its channels: 50 epochs in steps of
16 crops, of which a fifth is kept to test on. Ours is `runtime execute` with the file of examples/camera.py, whose
trunk an ONNX file brings. Keras has the same network with weights by chance, which takes the same time, so its accuracy
says nothing. Rounds in turns; seconds and peak memory are those of whole processes, with two threads. First runs
include LLVM, which compiles the steps. Needs TensorFlow and onnx.
"""

import argparse
import os
import re
import subprocess
import sys
from pathlib import Path
from statistics import median
from tempfile import TemporaryDirectory
from time import perf_counter

ROOT = Path(__file__).parents[2]

KERAS = """
import os, resource, sys
os.environ["TF_CPP_MIN_LOG_LEVEL"] = "3"
import tensorflow as tf
from safetensors.numpy import load_file
tf.config.threading.set_intra_op_parallelism_threads(2)
found = load_file(sys.argv[1])
image, state, train, test = (found[name] for name in ("image", "state", "train", "test"))
network, layers = tf.keras.applications.MobileNetV2, tf.keras.layers
trunk = network(input_shape=image.shape[1:], alpha=0.35, include_top=False, weights=None)
trunk.trainable = False
head = [layers.GlobalAveragePooling2D(), layers.Dense(128, "relu"), layers.Dropout(0.3), layers.Dense(3)]
model = tf.keras.Sequential([layers.Rescaling(1 / 127.5, -1), trunk, *head])
model.compile("adam", tf.keras.losses.SparseCategoricalCrossentropy(from_logits=True), metrics=["accuracy"])
model.fit(image[train], state[train], 16, int(sys.argv[2]), verbose=0, validation_data=(image[test], state[test]))
print("rss=%d" % (resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * 1024))
"""


def measured(command: list[str]) -> tuple[float, float, str]:
    """Seconds and MiB of a process, and the accuracy that it says."""
    environment = os.environ | {"PYTHONPATH": os.pathsep.join([str(ROOT), str(ROOT / "proto")])}
    start = perf_counter()
    done = subprocess.run(command, capture_output=True, text=True, env=environment)
    if done.returncode:
        raise SystemExit(done.stderr)
    said = re.findall(r"evaluate\.accuracy=(\S+)", done.stdout)
    return perf_counter() - start, int(re.findall(r"rss=(\d+)", done.stdout)[-1]) / 2**20, (said or ["-"])[0]


def main() -> None:
    """Make the crops, and let both train in turns."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--size", type=int, default=224)
    parser.add_argument("--crops", type=int, default=400)
    parser.add_argument("--epochs", type=int, default=50)
    parser.add_argument("--rounds", type=int, default=3)
    options = parser.parse_args()
    with TemporaryDirectory() as folder:
        crops = [f"--crops={options.crops}", f"--size={options.size}", "--steps=100"]
        measured_once = {"cwd": ROOT, "check": True, "stdout": subprocess.DEVNULL}
        environment = os.environ | {"PYTHONPATH": os.pathsep.join([str(ROOT), str(ROOT / "proto")])}
        for script in (["examples/make_camera.py", folder, *crops], ["examples/camera.py", folder]):
            subprocess.run([sys.executable, *script], env=environment, **measured_once)
        epochs = str(options.epochs)
        ours = [sys.executable, "-m", "runtime", "execute", f"{folder}/camera.pb", "--epochs", epochs, "--threads", "2"]
        ways = {
            "runtime": ours,
            "runtime, --engine native.sse2": [*ours, "--engine", "native.sse2"],
            "Keras": [sys.executable, "-c", KERAS, f"{folder}/crops.safetensors", epochs],
        }
        for name in [*ways][:2]:
            print(f"| {name}, first run | {measured(ways[name])[0]:.1f} |")
        found = {name: [] for name in ways}
        for _ in range(options.rounds):
            for name, command in ways.items():
                found[name].append(measured(command))
    for name, rows in found.items():
        seconds, peaks, accuracies = zip(*rows, strict=True)
        print(f"| {name} | {median(seconds):.1f} s | {median(peaks):.0f} MiB | {accuracies[-1]} |")


if __name__ == "__main__":
    main()
