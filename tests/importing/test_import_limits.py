"""ONNX files of a kilobyte that ask for much: constants from constants, loops in loops, endless padding."""

from __future__ import annotations

import re
import signal
import subprocess
import sys
from pathlib import Path
from threading import Thread

import numpy as np
import onnx
import pytest

from compiler import from_onnx
from compiler.__main__ import main
from compiler.frontends import account
from prograd import ResourceLimit, load

helper, numpy_helper = onnx.helper, onnx.numpy_helper
FLOAT, INT64, BOOL = onnx.TensorProto.FLOAT, onnx.TensorProto.INT64, onnx.TensorProto.BOOL
value = helper.make_tensor_value_info


def constant(name: str, array: object) -> object:
    return helper.make_node("Constant", [], [name], value=numpy_helper.from_array(np.asarray(array)))


def model(nodes: list[object], kind: int = FLOAT) -> object:
    graph = helper.make_graph(nodes, "g", [value("x", kind, [1])], [value("y", kind, None)])
    return helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=9)


def doubled(times: int) -> object:
    nodes, last = [constant("c", np.ones(5, np.float32))], "c"
    for number in range(times):
        nodes.append(helper.make_node("Concat", [last, last], [f"c{number}"], axis=0))
        last = f"c{number}"
    return model([*nodes, helper.make_node("Add", ["x", last], ["y"])])


def padded() -> object:
    nodes = [constant("c", np.ones(5, np.float32)), constant("p", np.array([0, 1 << 31]))]
    return model([*nodes, helper.make_node("Pad", ["c", "p"], ["d"]), helper.make_node("Add", ["x", "d"], ["y"])])


def crossed() -> object:
    nodes = [constant("z", 0), constant("n", 1 << 17), constant("o", 1), constant("a", np.array([1]))]
    nodes += [helper.make_node("Range", ["z", "n", "o"], ["r"]), helper.make_node("Unsqueeze", ["r", "a"], ["q"])]
    return model(
        [*nodes, helper.make_node("Mul", ["r", "q"], ["m"]), helper.make_node("Add", ["x", "m"], ["y"])], INT64
    )


def looped(depth: int, trips: int) -> object:
    """Loops in loops that append a number to a carried value, so none can stay a loop."""

    def body(level: int) -> object:
        inner = helper.make_node("Concat", [f"a{level}", "x"], [f"b{level}"], axis=0)
        if level:
            inner = helper.make_node("Loop", ["trips", "goes", f"a{level}"], [f"b{level}"], body=body(level - 1))
        nodes = [inner, helper.make_node("Identity", [f"k{level}"], [f"l{level}"])]
        given = [value(f"i{level}", INT64, []), value(f"k{level}", BOOL, []), value(f"a{level}", FLOAT, None)]
        made = [value(f"l{level}", BOOL, []), value(f"b{level}", FLOAT, None)]
        return helper.make_graph(nodes, f"body{level}", given, made)

    outer = helper.make_node("Loop", ["trips", "goes", "x"], ["y"], body=body(depth - 1))
    return model([constant("trips", trips), constant("goes", True), outer])


@pytest.mark.thorough
@pytest.mark.parametrize(
    ("made", "said"),
    [
        (doubled(30), r"a constant of Concat takes \d+ bytes"),
        (
            crossed(),
            "a constant of Mul takes 137438953472 bytes",
        ),
    ],
    ids=["concat", "broadcast"],
)
def test_constants_are_counted_before_they_are_computed(made: object, said: str):
    with pytest.raises(ResourceLimit) as caught:
        from_onnx(made)
    assert re.fullmatch(said + ", and an import computes 1073741824 of constants in all", str(caught.value))


def test_a_large_pad_of_a_constant_is_left_to_the_program(tmp_path: Path):
    path = tmp_path / "pad.pb"
    from_onnx(padded()).compile().save(path)
    assert path.stat().st_size < 2000
    run = load(path, max_memory=1 << 30)
    with pytest.raises(ResourceLimit):
        run.predict({"x": np.ones(1, np.float32)})


def test_loops_in_loops_are_counted_together(monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr(account, "MAX_NODES", 500)
    with pytest.raises(ResourceLimit) as caught:
        from_onnx(looped(3, 20))
    assert str(caught.value) == "the import visits more than 500 nodes, as loops are unrolled; give loops fewer trips"
    assert from_onnx(looped(2, 10)).outputs_of_module == ["y"]


def test_the_time_of_an_import_is_bounded():
    with pytest.raises(ResourceLimit) as caught:
        from_onnx(looped(3, 60), max_time=0.5)
    assert str(caught.value) == "the import takes longer than 0.5 seconds; --max-time gives it more"


@pytest.mark.skipif(not hasattr(signal, "SIGALRM"), reason="Windows has no alarms")
def test_an_import_leaves_the_alarms_of_its_process_as_they_were(tmp_path: Path, capsys: pytest.CaptureFixture[str]):
    onnx.save(looped(1, 2), tmp_path / "m.onnx")
    words = ["import", "onnx", str(tmp_path / "m.onnx"), "-o", str(tmp_path / "m.pb"), "--max-time", "60s", "--force"]

    def own(number: int, frame: object) -> None: ...

    before = signal.signal(signal.SIGALRM, own)
    try:
        assert main(words) == 0
        assert signal.getsignal(signal.SIGALRM) is own
    finally:
        signal.signal(signal.SIGALRM, before)
    codes: list[int] = []
    thread = Thread(target=lambda: codes.append(main(words)))  # only the main thread may set alarms
    thread.start()
    thread.join()
    assert codes == [0]
    assert signal.getsignal(signal.SIGALRM) is signal.SIG_DFL
    assert "Traceback" not in capsys.readouterr().err


@pytest.mark.thorough
@pytest.mark.skipif(sys.platform != "linux", reason="other systems count the memory of a process otherwise")
@pytest.mark.parametrize(
    ("made", "said"),
    [
        (doubled(30), r"a constant of Concat takes \d+ bytes, and \d+ are left of the 268435456 of the process; "
         "--max-memory gives it more"),
        (looped(3, 60), "the import takes longer than 3 seconds; --max-time gives it more"),
    ],
    ids=["memory", "time"],
)  # fmt: skip
def test_the_command_holds_its_limits(made: object, said: str, tmp_path: Path):
    onnx.save(made, tmp_path / "m.onnx")
    script = (
        "import sys; from compiler.__main__ import main; code = main(sys.argv[1:]); "
        "print(next(line.split()[1] for line in open('/proc/self/status') if line.startswith('VmHWM'))); sys.exit(code)"
    )
    command = [sys.executable, "-P", "-c", script, "import", "onnx", "m.onnx", "-o", "m.pb"]
    limits = ["--max-memory", "256MiB", "--max-time", "3s"]
    done = subprocess.run([*command, *limits], capture_output=True, text=True, cwd=tmp_path, check=False)
    assert done.returncode == 6
    assert re.fullmatch(f"compiler: {said}\n", done.stderr)
    assert int(done.stdout) < 1.2 * (256 << 10)
    assert [path.name for path in tmp_path.iterdir()] == ["m.onnx"]
