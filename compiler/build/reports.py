"""The reports of training and other entries, by name, and their reduction over steps."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from itertools import chain, count

from compiler.build.assembly import Outputs
from compiler.build.declarations import Over, over_number
from compiler.train.metrics.metric import Metric, require_metric
from compiler.train.weighted_means import weight_of, weighted_mean
from prograd_proto import TensorType
from prograd_proto import program_pb2 as pb
from prograd_proto.better import Best
from registry import Block, OpError, Value


class Reports:
    """The fetches of one program.

    `train` has the results of training, `entries` the results of the other entries, by name, and `losses` the losses
    that the entry `evaluate` reports. `totals` has the new value of each total of a metric by state. `new_total(name,
    type)` makes such a state. `best` has, for each name that `evaluate` reports, the better direction, if it is known.
    """

    def __init__(self, block: Block, new_total: Callable[[str, TensorType], Value]) -> None:
        self.train: Outputs = {}
        self.losses: Outputs = {}
        self.entries: dict[str, Outputs] = {}
        self.totals: dict[str, Value] = {}
        self.best: dict[str, Best] = {}
        self._block = block
        self._new_total = new_total

    def fetch(self, name: str, value: Value | Metric, over: Over) -> None:
        """Let training report a value; raise OpError if it already reports one of that name."""
        if name in self.train:
            raise OpError(f"fetch {name!r}: training already reports a value of that name; give another name")
        self.train[name] = self._reported(f"fetch {name!r}", name, value, over)

    def loss(self, name: str, loss: Value, weight: Value | None) -> None:
        """Let training and evaluation report a loss; evaluation weights it by `weight`."""
        name = self.free(name) if name == "loss" else name
        self.fetch(name, loss, "mean")
        self.losses[name] = self.train[name]
        self.best[name] = "min"
        weight = weight_of(loss) if weight is None else weight
        if weight is not None:
            self.losses[name] = self._reported("minimize", name, weighted_mean(loss, weight), "last")

    def metric(self, name: str, value: Value | Metric) -> None:
        """Let training and evaluation report a scalar, or a metric over all rows so far."""
        if isinstance(value, Value) and value.rank != 0:
            raise OpError(f"metrics: {name} is {value.type}, not a scalar; take ops.mean({name})")
        self._note_best(name, value)
        value = _over_all(value)
        over: Over = "last" if isinstance(value, Metric) else "mean"
        reported = self._reported(f"metric {name!r}", name, value, over)[0]
        self.fetch(name, reported, over)
        self.entry("evaluate", {name: reported}, over)

    def entry(self, entry: str, values: Mapping[str, Value | Metric], over: Over) -> None:
        """Let an entry report values; raise OpError for the entry of training."""
        if entry == "train":
            raise OpError("the entry 'train' is what minimize and update build; give another name")
        for name, value in values.items():
            if entry == "evaluate":
                self._note_best(name, value)
            value = _over_all(value) if over == "mean" else value
            self.entries.setdefault(entry, {})[name] = self._reported(f"entry {entry!r}", name, value, over)

    def with_losses(self) -> dict[str, Outputs]:
        """Return the reports of each entry besides training."""
        if not self.losses:
            return dict(self.entries)
        return self.entries | {"evaluate": self.losses | self.entries.get("evaluate", {})}

    def free(self, name: str) -> str:
        """Return the name, or the first of `loss2`, `loss3` and so on that training does not report yet."""
        names = chain((name,), (f"{name}{number}" for number in count(2)))
        return next(free for free in names if free not in self.train)

    def _note_best(self, name: str, value: Value | Metric) -> None:
        if isinstance(value, Metric) and value.best is not None:
            self.best[name] = value.best

    def _reported(self, what: str, name: str, value: Value | Metric, over: Over) -> tuple[Value, pb.Over]:
        """Return the tensor that is fetched under a name, and its reduction over steps."""
        if isinstance(value, Metric):
            value, over = self._totalled(name, value), "last"
        if not isinstance(value, Value):  # pyright: ignore[reportUnnecessaryIsInstance]: users may not check types
            raise OpError(f"{what}: {value!r} is neither a tensor of a program nor a metric")
        require_of(self._block, what, value)
        return value, over_number(what, over)

    def _totalled(self, name: str, metric: Metric) -> Value:
        """Return the result of a metric after this step; its totals become states."""
        states = [self._new_total(f"{name}.{total.suffix}", total.type) for total in metric.totals]
        with self._block.on_behalf_of(stage=pb.STAGE_UPDATE):
            totals = metric.add(*states)
        require_metric(name, metric, totals, self._block)
        self.totals |= {state.name: total for state, total in zip(states, totals, strict=True)}
        return metric.result(*totals)


def _over_all(value: Value | Metric) -> Value | Metric:
    """Return a weighted mean as the metric over all its terms; anything else as it is."""
    weight = weight_of(value) if isinstance(value, Value) and value.rank == 0 else None
    return value if weight is None or isinstance(value, Metric) else weighted_mean(value, weight)


def require_of(block: Block, what: str, value: Value) -> None:
    """Raise OpError for a tensor of another program, or of a block inside an op."""
    if value.block.root is block and value.block is not block:
        raise OpError(f"{what}: {value!r} exists only inside {value.block.what}; let its function return it")
    if value.block is not block:
        raise OpError(f"{what}: {value!r} belongs to another program; build both in one")
