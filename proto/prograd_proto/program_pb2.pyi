from google.protobuf.internal import containers as _containers
from google.protobuf.internal import enum_type_wrapper as _enum_type_wrapper
from google.protobuf import descriptor as _descriptor
from google.protobuf import message as _message
from collections.abc import Iterable as _Iterable, Mapping as _Mapping
from typing import ClassVar as _ClassVar, Optional as _Optional, Union as _Union

DESCRIPTOR: _descriptor.FileDescriptor

class DType(int, metaclass=_enum_type_wrapper.EnumTypeWrapper):
    __slots__ = ()
    D_TYPE_UNSPECIFIED: _ClassVar[DType]
    D_TYPE_FLOAT32: _ClassVar[DType]
    D_TYPE_FLOAT64: _ClassVar[DType]
    D_TYPE_INT32: _ClassVar[DType]
    D_TYPE_INT64: _ClassVar[DType]
    D_TYPE_BOOL: _ClassVar[DType]
    D_TYPE_UINT8: _ClassVar[DType]
    D_TYPE_FLOAT16: _ClassVar[DType]
    D_TYPE_BFLOAT16: _ClassVar[DType]

class StateKind(int, metaclass=_enum_type_wrapper.EnumTypeWrapper):
    __slots__ = ()
    STATE_KIND_UNSPECIFIED: _ClassVar[StateKind]
    STATE_KIND_PARAMETER: _ClassVar[StateKind]
    STATE_KIND_SLOT: _ClassVar[StateKind]
    STATE_KIND_BUFFER: _ClassVar[StateKind]
    STATE_KIND_COUNTER: _ClassVar[StateKind]

class Lifespan(int, metaclass=_enum_type_wrapper.EnumTypeWrapper):
    __slots__ = ()
    LIFESPAN_UNSPECIFIED: _ClassVar[Lifespan]
    LIFESPAN_ALWAYS: _ClassVar[Lifespan]
    LIFESPAN_EPOCH: _ClassVar[Lifespan]
    LIFESPAN_FORWARD: _ClassVar[Lifespan]
    LIFESPAN_BACKWARD: _ClassVar[Lifespan]
    LIFESPAN_ITERATION: _ClassVar[Lifespan]

class Stage(int, metaclass=_enum_type_wrapper.EnumTypeWrapper):
    __slots__ = ()
    STAGE_UNSPECIFIED: _ClassVar[Stage]
    STAGE_FORWARD: _ClassVar[Stage]
    STAGE_GRADIENT: _ClassVar[Stage]
    STAGE_DERIVATIVE: _ClassVar[Stage]
    STAGE_UPDATE: _ClassVar[Stage]

class Over(int, metaclass=_enum_type_wrapper.EnumTypeWrapper):
    __slots__ = ()
    OVER_UNSPECIFIED: _ClassVar[Over]
    OVER_LAST: _ClassVar[Over]
    OVER_MEAN: _ClassVar[Over]
    OVER_SUM: _ClassVar[Over]

class DataFormat(int, metaclass=_enum_type_wrapper.EnumTypeWrapper):
    __slots__ = ()
    DATA_FORMAT_UNSPECIFIED: _ClassVar[DataFormat]
    DATA_FORMAT_SAFETENSORS: _ClassVar[DataFormat]
    DATA_FORMAT_NPZ: _ClassVar[DataFormat]

class Remainder(int, metaclass=_enum_type_wrapper.EnumTypeWrapper):
    __slots__ = ()
    REMAINDER_UNSPECIFIED: _ClassVar[Remainder]
    REMAINDER_DROP: _ClassVar[Remainder]
    REMAINDER_EXACT: _ClassVar[Remainder]
    REMAINDER_PARTIAL: _ClassVar[Remainder]

class Direction(int, metaclass=_enum_type_wrapper.EnumTypeWrapper):
    __slots__ = ()
    DIRECTION_UNSPECIFIED: _ClassVar[Direction]
    DIRECTION_MIN: _ClassVar[Direction]
    DIRECTION_MAX: _ClassVar[Direction]

class Bfloat16Order(int, metaclass=_enum_type_wrapper.EnumTypeWrapper):
    __slots__ = ()
    BFLOAT16_ORDER_UNSPECIFIED: _ClassVar[Bfloat16Order]
    BFLOAT16_ORDER_PAIRS: _ClassVar[Bfloat16Order]
D_TYPE_UNSPECIFIED: DType
D_TYPE_FLOAT32: DType
D_TYPE_FLOAT64: DType
D_TYPE_INT32: DType
D_TYPE_INT64: DType
D_TYPE_BOOL: DType
D_TYPE_UINT8: DType
D_TYPE_FLOAT16: DType
D_TYPE_BFLOAT16: DType
STATE_KIND_UNSPECIFIED: StateKind
STATE_KIND_PARAMETER: StateKind
STATE_KIND_SLOT: StateKind
STATE_KIND_BUFFER: StateKind
STATE_KIND_COUNTER: StateKind
LIFESPAN_UNSPECIFIED: Lifespan
LIFESPAN_ALWAYS: Lifespan
LIFESPAN_EPOCH: Lifespan
LIFESPAN_FORWARD: Lifespan
LIFESPAN_BACKWARD: Lifespan
LIFESPAN_ITERATION: Lifespan
STAGE_UNSPECIFIED: Stage
STAGE_FORWARD: Stage
STAGE_GRADIENT: Stage
STAGE_DERIVATIVE: Stage
STAGE_UPDATE: Stage
OVER_UNSPECIFIED: Over
OVER_LAST: Over
OVER_MEAN: Over
OVER_SUM: Over
DATA_FORMAT_UNSPECIFIED: DataFormat
DATA_FORMAT_SAFETENSORS: DataFormat
DATA_FORMAT_NPZ: DataFormat
REMAINDER_UNSPECIFIED: Remainder
REMAINDER_DROP: Remainder
REMAINDER_EXACT: Remainder
REMAINDER_PARTIAL: Remainder
DIRECTION_UNSPECIFIED: Direction
DIRECTION_MIN: Direction
DIRECTION_MAX: Direction
BFLOAT16_ORDER_UNSPECIFIED: Bfloat16Order
BFLOAT16_ORDER_PAIRS: Bfloat16Order

class ProgramDesc(_message.Message):
    __slots__ = ("format_version", "producer", "name", "seed", "operators", "states", "blocks", "entries", "data", "run", "files", "locations", "model", "limits", "bfloat16_order", "complete")
    FORMAT_VERSION_FIELD_NUMBER: _ClassVar[int]
    PRODUCER_FIELD_NUMBER: _ClassVar[int]
    NAME_FIELD_NUMBER: _ClassVar[int]
    SEED_FIELD_NUMBER: _ClassVar[int]
    OPERATORS_FIELD_NUMBER: _ClassVar[int]
    STATES_FIELD_NUMBER: _ClassVar[int]
    BLOCKS_FIELD_NUMBER: _ClassVar[int]
    ENTRIES_FIELD_NUMBER: _ClassVar[int]
    DATA_FIELD_NUMBER: _ClassVar[int]
    RUN_FIELD_NUMBER: _ClassVar[int]
    FILES_FIELD_NUMBER: _ClassVar[int]
    LOCATIONS_FIELD_NUMBER: _ClassVar[int]
    MODEL_FIELD_NUMBER: _ClassVar[int]
    LIMITS_FIELD_NUMBER: _ClassVar[int]
    BFLOAT16_ORDER_FIELD_NUMBER: _ClassVar[int]
    COMPLETE_FIELD_NUMBER: _ClassVar[int]
    format_version: int
    producer: str
    name: str
    seed: int
    operators: _containers.RepeatedCompositeFieldContainer[OperatorVersion]
    states: _containers.RepeatedCompositeFieldContainer[StateDesc]
    blocks: _containers.RepeatedCompositeFieldContainer[BlockDesc]
    entries: _containers.RepeatedCompositeFieldContainer[EntryDesc]
    data: DataDesc
    run: RunDesc
    files: _containers.RepeatedCompositeFieldContainer[FileDesc]
    locations: _containers.RepeatedScalarFieldContainer[str]
    model: _containers.RepeatedCompositeFieldContainer[ModelText]
    limits: _containers.RepeatedCompositeFieldContainer[SymbolLimits]
    bfloat16_order: Bfloat16Order
    complete: bool
    def __init__(self, format_version: _Optional[int] = ..., producer: _Optional[str] = ..., name: _Optional[str] = ..., seed: _Optional[int] = ..., operators: _Optional[_Iterable[_Union[OperatorVersion, _Mapping]]] = ..., states: _Optional[_Iterable[_Union[StateDesc, _Mapping]]] = ..., blocks: _Optional[_Iterable[_Union[BlockDesc, _Mapping]]] = ..., entries: _Optional[_Iterable[_Union[EntryDesc, _Mapping]]] = ..., data: _Optional[_Union[DataDesc, _Mapping]] = ..., run: _Optional[_Union[RunDesc, _Mapping]] = ..., files: _Optional[_Iterable[_Union[FileDesc, _Mapping]]] = ..., locations: _Optional[_Iterable[str]] = ..., model: _Optional[_Iterable[_Union[ModelText, _Mapping]]] = ..., limits: _Optional[_Iterable[_Union[SymbolLimits, _Mapping]]] = ..., bfloat16_order: _Optional[_Union[Bfloat16Order, str]] = ..., complete: bool = ...) -> None: ...

class ModelText(_message.Message):
    __slots__ = ("key", "text")
    KEY_FIELD_NUMBER: _ClassVar[int]
    TEXT_FIELD_NUMBER: _ClassVar[int]
    key: str
    text: str
    def __init__(self, key: _Optional[str] = ..., text: _Optional[str] = ...) -> None: ...

class SymbolLimits(_message.Message):
    __slots__ = ("symbol", "least", "most", "reason")
    SYMBOL_FIELD_NUMBER: _ClassVar[int]
    LEAST_FIELD_NUMBER: _ClassVar[int]
    MOST_FIELD_NUMBER: _ClassVar[int]
    REASON_FIELD_NUMBER: _ClassVar[int]
    symbol: str
    least: int
    most: int
    reason: str
    def __init__(self, symbol: _Optional[str] = ..., least: _Optional[int] = ..., most: _Optional[int] = ..., reason: _Optional[str] = ...) -> None: ...

class OperatorVersion(_message.Message):
    __slots__ = ("type", "version")
    TYPE_FIELD_NUMBER: _ClassVar[int]
    VERSION_FIELD_NUMBER: _ClassVar[int]
    type: str
    version: int
    def __init__(self, type: _Optional[str] = ..., version: _Optional[int] = ...) -> None: ...

class Dim(_message.Message):
    __slots__ = ("size", "symbol")
    SIZE_FIELD_NUMBER: _ClassVar[int]
    SYMBOL_FIELD_NUMBER: _ClassVar[int]
    size: int
    symbol: str
    def __init__(self, size: _Optional[int] = ..., symbol: _Optional[str] = ...) -> None: ...

class Shape(_message.Message):
    __slots__ = ("dims",)
    DIMS_FIELD_NUMBER: _ClassVar[int]
    dims: _containers.RepeatedCompositeFieldContainer[Dim]
    def __init__(self, dims: _Optional[_Iterable[_Union[Dim, _Mapping]]] = ...) -> None: ...

class StateDesc(_message.Message):
    __slots__ = ("name", "dtype", "shape", "kind", "slot_of", "slot", "trainable", "rate_scale", "decay_scale", "lifespan", "op", "external", "imported")
    NAME_FIELD_NUMBER: _ClassVar[int]
    DTYPE_FIELD_NUMBER: _ClassVar[int]
    SHAPE_FIELD_NUMBER: _ClassVar[int]
    KIND_FIELD_NUMBER: _ClassVar[int]
    SLOT_OF_FIELD_NUMBER: _ClassVar[int]
    SLOT_FIELD_NUMBER: _ClassVar[int]
    TRAINABLE_FIELD_NUMBER: _ClassVar[int]
    RATE_SCALE_FIELD_NUMBER: _ClassVar[int]
    DECAY_SCALE_FIELD_NUMBER: _ClassVar[int]
    LIFESPAN_FIELD_NUMBER: _ClassVar[int]
    OP_FIELD_NUMBER: _ClassVar[int]
    EXTERNAL_FIELD_NUMBER: _ClassVar[int]
    IMPORTED_FIELD_NUMBER: _ClassVar[int]
    name: str
    dtype: DType
    shape: Shape
    kind: StateKind
    slot_of: str
    slot: str
    trainable: bool
    rate_scale: float
    decay_scale: float
    lifespan: Lifespan
    op: OpDesc
    external: ExternalTensor
    imported: ImportedTensor
    def __init__(self, name: _Optional[str] = ..., dtype: _Optional[_Union[DType, str]] = ..., shape: _Optional[_Union[Shape, _Mapping]] = ..., kind: _Optional[_Union[StateKind, str]] = ..., slot_of: _Optional[str] = ..., slot: _Optional[str] = ..., trainable: bool = ..., rate_scale: _Optional[float] = ..., decay_scale: _Optional[float] = ..., lifespan: _Optional[_Union[Lifespan, str]] = ..., op: _Optional[_Union[OpDesc, _Mapping]] = ..., external: _Optional[_Union[ExternalTensor, _Mapping]] = ..., imported: _Optional[_Union[ImportedTensor, _Mapping]] = ...) -> None: ...

class ImportedTensor(_message.Message):
    __slots__ = ("names", "axes")
    NAMES_FIELD_NUMBER: _ClassVar[int]
    AXES_FIELD_NUMBER: _ClassVar[int]
    names: _containers.RepeatedScalarFieldContainer[str]
    axes: _containers.RepeatedScalarFieldContainer[int]
    def __init__(self, names: _Optional[_Iterable[str]] = ..., axes: _Optional[_Iterable[int]] = ...) -> None: ...

class ExternalTensor(_message.Message):
    __slots__ = ("path", "key")
    PATH_FIELD_NUMBER: _ClassVar[int]
    KEY_FIELD_NUMBER: _ClassVar[int]
    path: str
    key: str
    def __init__(self, path: _Optional[str] = ..., key: _Optional[str] = ...) -> None: ...

class EntryDesc(_message.Message):
    __slots__ = ("name", "source_block", "bindings")
    NAME_FIELD_NUMBER: _ClassVar[int]
    SOURCE_BLOCK_FIELD_NUMBER: _ClassVar[int]
    BINDINGS_FIELD_NUMBER: _ClassVar[int]
    name: str
    source_block: int
    bindings: _containers.RepeatedCompositeFieldContainer[Binding]
    def __init__(self, name: _Optional[str] = ..., source_block: _Optional[int] = ..., bindings: _Optional[_Iterable[_Union[Binding, _Mapping]]] = ...) -> None: ...

class Binding(_message.Message):
    __slots__ = ("dims", "block", "plan")
    DIMS_FIELD_NUMBER: _ClassVar[int]
    BLOCK_FIELD_NUMBER: _ClassVar[int]
    PLAN_FIELD_NUMBER: _ClassVar[int]
    dims: _containers.RepeatedCompositeFieldContainer[SymbolSize]
    block: int
    plan: MemoryPlan
    def __init__(self, dims: _Optional[_Iterable[_Union[SymbolSize, _Mapping]]] = ..., block: _Optional[int] = ..., plan: _Optional[_Union[MemoryPlan, _Mapping]] = ...) -> None: ...

class SymbolSize(_message.Message):
    __slots__ = ("symbol", "size")
    SYMBOL_FIELD_NUMBER: _ClassVar[int]
    SIZE_FIELD_NUMBER: _ClassVar[int]
    symbol: str
    size: int
    def __init__(self, symbol: _Optional[str] = ..., size: _Optional[int] = ...) -> None: ...

class BlockDesc(_message.Message):
    __slots__ = ("tensors", "parameters", "ops", "results", "updates", "fetches")
    TENSORS_FIELD_NUMBER: _ClassVar[int]
    PARAMETERS_FIELD_NUMBER: _ClassVar[int]
    OPS_FIELD_NUMBER: _ClassVar[int]
    RESULTS_FIELD_NUMBER: _ClassVar[int]
    UPDATES_FIELD_NUMBER: _ClassVar[int]
    FETCHES_FIELD_NUMBER: _ClassVar[int]
    tensors: _containers.RepeatedCompositeFieldContainer[TensorDesc]
    parameters: _containers.RepeatedCompositeFieldContainer[ParameterDesc]
    ops: _containers.RepeatedCompositeFieldContainer[OpDesc]
    results: _containers.RepeatedScalarFieldContainer[str]
    updates: _containers.RepeatedCompositeFieldContainer[UpdateDesc]
    fetches: _containers.RepeatedCompositeFieldContainer[FetchDesc]
    def __init__(self, tensors: _Optional[_Iterable[_Union[TensorDesc, _Mapping]]] = ..., parameters: _Optional[_Iterable[_Union[ParameterDesc, _Mapping]]] = ..., ops: _Optional[_Iterable[_Union[OpDesc, _Mapping]]] = ..., results: _Optional[_Iterable[str]] = ..., updates: _Optional[_Iterable[_Union[UpdateDesc, _Mapping]]] = ..., fetches: _Optional[_Iterable[_Union[FetchDesc, _Mapping]]] = ...) -> None: ...

class TensorDesc(_message.Message):
    __slots__ = ("name", "dtype", "shape", "gradient_of", "lifespan")
    NAME_FIELD_NUMBER: _ClassVar[int]
    DTYPE_FIELD_NUMBER: _ClassVar[int]
    SHAPE_FIELD_NUMBER: _ClassVar[int]
    GRADIENT_OF_FIELD_NUMBER: _ClassVar[int]
    LIFESPAN_FIELD_NUMBER: _ClassVar[int]
    name: str
    dtype: DType
    shape: Shape
    gradient_of: str
    lifespan: Lifespan
    def __init__(self, name: _Optional[str] = ..., dtype: _Optional[_Union[DType, str]] = ..., shape: _Optional[_Union[Shape, _Mapping]] = ..., gradient_of: _Optional[str] = ..., lifespan: _Optional[_Union[Lifespan, str]] = ...) -> None: ...

class ParameterDesc(_message.Message):
    __slots__ = ("tensor", "feed", "state", "argument")
    TENSOR_FIELD_NUMBER: _ClassVar[int]
    FEED_FIELD_NUMBER: _ClassVar[int]
    STATE_FIELD_NUMBER: _ClassVar[int]
    ARGUMENT_FIELD_NUMBER: _ClassVar[int]
    tensor: str
    feed: str
    state: str
    argument: int
    def __init__(self, tensor: _Optional[str] = ..., feed: _Optional[str] = ..., state: _Optional[str] = ..., argument: _Optional[int] = ...) -> None: ...

class UpdateDesc(_message.Message):
    __slots__ = ("state", "tensor")
    STATE_FIELD_NUMBER: _ClassVar[int]
    TENSOR_FIELD_NUMBER: _ClassVar[int]
    state: str
    tensor: str
    def __init__(self, state: _Optional[str] = ..., tensor: _Optional[str] = ...) -> None: ...

class FetchDesc(_message.Message):
    __slots__ = ("name", "tensor", "over")
    NAME_FIELD_NUMBER: _ClassVar[int]
    TENSOR_FIELD_NUMBER: _ClassVar[int]
    OVER_FIELD_NUMBER: _ClassVar[int]
    name: str
    tensor: str
    over: Over
    def __init__(self, name: _Optional[str] = ..., tensor: _Optional[str] = ..., over: _Optional[_Union[Over, str]] = ...) -> None: ...

class OpDesc(_message.Message):
    __slots__ = ("id", "type", "inputs", "outputs", "attributes", "stage", "gradient_of", "random_stream", "blocks", "location", "recompute_of")
    ID_FIELD_NUMBER: _ClassVar[int]
    TYPE_FIELD_NUMBER: _ClassVar[int]
    INPUTS_FIELD_NUMBER: _ClassVar[int]
    OUTPUTS_FIELD_NUMBER: _ClassVar[int]
    ATTRIBUTES_FIELD_NUMBER: _ClassVar[int]
    STAGE_FIELD_NUMBER: _ClassVar[int]
    GRADIENT_OF_FIELD_NUMBER: _ClassVar[int]
    RANDOM_STREAM_FIELD_NUMBER: _ClassVar[int]
    BLOCKS_FIELD_NUMBER: _ClassVar[int]
    LOCATION_FIELD_NUMBER: _ClassVar[int]
    RECOMPUTE_OF_FIELD_NUMBER: _ClassVar[int]
    id: int
    type: str
    inputs: _containers.RepeatedScalarFieldContainer[str]
    outputs: _containers.RepeatedScalarFieldContainer[str]
    attributes: _containers.RepeatedCompositeFieldContainer[AttrDesc]
    stage: Stage
    gradient_of: int
    random_stream: int
    blocks: _containers.RepeatedScalarFieldContainer[int]
    location: int
    recompute_of: int
    def __init__(self, id: _Optional[int] = ..., type: _Optional[str] = ..., inputs: _Optional[_Iterable[str]] = ..., outputs: _Optional[_Iterable[str]] = ..., attributes: _Optional[_Iterable[_Union[AttrDesc, _Mapping]]] = ..., stage: _Optional[_Union[Stage, str]] = ..., gradient_of: _Optional[int] = ..., random_stream: _Optional[int] = ..., blocks: _Optional[_Iterable[int]] = ..., location: _Optional[int] = ..., recompute_of: _Optional[int] = ...) -> None: ...

class AttrDesc(_message.Message):
    __slots__ = ("name", "bool_value", "int_value", "float_value", "string_value", "dtype_value", "shape_value", "ints_value", "floats_value", "strings_value", "tensor_value")
    NAME_FIELD_NUMBER: _ClassVar[int]
    BOOL_VALUE_FIELD_NUMBER: _ClassVar[int]
    INT_VALUE_FIELD_NUMBER: _ClassVar[int]
    FLOAT_VALUE_FIELD_NUMBER: _ClassVar[int]
    STRING_VALUE_FIELD_NUMBER: _ClassVar[int]
    DTYPE_VALUE_FIELD_NUMBER: _ClassVar[int]
    SHAPE_VALUE_FIELD_NUMBER: _ClassVar[int]
    INTS_VALUE_FIELD_NUMBER: _ClassVar[int]
    FLOATS_VALUE_FIELD_NUMBER: _ClassVar[int]
    STRINGS_VALUE_FIELD_NUMBER: _ClassVar[int]
    TENSOR_VALUE_FIELD_NUMBER: _ClassVar[int]
    name: str
    bool_value: bool
    int_value: int
    float_value: float
    string_value: str
    dtype_value: DType
    shape_value: Shape
    ints_value: Int64s
    floats_value: Doubles
    strings_value: Strings
    tensor_value: SmallTensor
    def __init__(self, name: _Optional[str] = ..., bool_value: bool = ..., int_value: _Optional[int] = ..., float_value: _Optional[float] = ..., string_value: _Optional[str] = ..., dtype_value: _Optional[_Union[DType, str]] = ..., shape_value: _Optional[_Union[Shape, _Mapping]] = ..., ints_value: _Optional[_Union[Int64s, _Mapping]] = ..., floats_value: _Optional[_Union[Doubles, _Mapping]] = ..., strings_value: _Optional[_Union[Strings, _Mapping]] = ..., tensor_value: _Optional[_Union[SmallTensor, _Mapping]] = ...) -> None: ...

class Int64s(_message.Message):
    __slots__ = ("values",)
    VALUES_FIELD_NUMBER: _ClassVar[int]
    values: _containers.RepeatedScalarFieldContainer[int]
    def __init__(self, values: _Optional[_Iterable[int]] = ...) -> None: ...

class Doubles(_message.Message):
    __slots__ = ("values",)
    VALUES_FIELD_NUMBER: _ClassVar[int]
    values: _containers.RepeatedScalarFieldContainer[float]
    def __init__(self, values: _Optional[_Iterable[float]] = ...) -> None: ...

class Strings(_message.Message):
    __slots__ = ("values",)
    VALUES_FIELD_NUMBER: _ClassVar[int]
    values: _containers.RepeatedScalarFieldContainer[str]
    def __init__(self, values: _Optional[_Iterable[str]] = ...) -> None: ...

class SmallTensor(_message.Message):
    __slots__ = ("dtype", "shape", "data")
    DTYPE_FIELD_NUMBER: _ClassVar[int]
    SHAPE_FIELD_NUMBER: _ClassVar[int]
    DATA_FIELD_NUMBER: _ClassVar[int]
    dtype: DType
    shape: _containers.RepeatedScalarFieldContainer[int]
    data: bytes
    def __init__(self, dtype: _Optional[_Union[DType, str]] = ..., shape: _Optional[_Iterable[int]] = ..., data: _Optional[bytes] = ...) -> None: ...

class DataDesc(_message.Message):
    __slots__ = ("file", "format", "columns", "splits", "shuffle", "remainder", "shuffle_rows", "encoding")
    FILE_FIELD_NUMBER: _ClassVar[int]
    FORMAT_FIELD_NUMBER: _ClassVar[int]
    COLUMNS_FIELD_NUMBER: _ClassVar[int]
    SPLITS_FIELD_NUMBER: _ClassVar[int]
    SHUFFLE_FIELD_NUMBER: _ClassVar[int]
    REMAINDER_FIELD_NUMBER: _ClassVar[int]
    SHUFFLE_ROWS_FIELD_NUMBER: _ClassVar[int]
    ENCODING_FIELD_NUMBER: _ClassVar[int]
    file: str
    format: DataFormat
    columns: _containers.RepeatedCompositeFieldContainer[ColumnDesc]
    splits: _containers.RepeatedCompositeFieldContainer[SplitDesc]
    shuffle: bool
    remainder: Remainder
    shuffle_rows: int
    encoding: str
    def __init__(self, file: _Optional[str] = ..., format: _Optional[_Union[DataFormat, str]] = ..., columns: _Optional[_Iterable[_Union[ColumnDesc, _Mapping]]] = ..., splits: _Optional[_Iterable[_Union[SplitDesc, _Mapping]]] = ..., shuffle: bool = ..., remainder: _Optional[_Union[Remainder, str]] = ..., shuffle_rows: _Optional[int] = ..., encoding: _Optional[str] = ...) -> None: ...

class ColumnDesc(_message.Message):
    __slots__ = ("feed", "key")
    FEED_FIELD_NUMBER: _ClassVar[int]
    KEY_FIELD_NUMBER: _ClassVar[int]
    feed: str
    key: str
    def __init__(self, feed: _Optional[str] = ..., key: _Optional[str] = ...) -> None: ...

class SplitDesc(_message.Message):
    __slots__ = ("name", "key", "rows")
    NAME_FIELD_NUMBER: _ClassVar[int]
    KEY_FIELD_NUMBER: _ClassVar[int]
    ROWS_FIELD_NUMBER: _ClassVar[int]
    name: str
    key: str
    rows: RowRange
    def __init__(self, name: _Optional[str] = ..., key: _Optional[str] = ..., rows: _Optional[_Union[RowRange, _Mapping]] = ...) -> None: ...

class RowRange(_message.Message):
    __slots__ = ("start", "stop", "stride")
    START_FIELD_NUMBER: _ClassVar[int]
    STOP_FIELD_NUMBER: _ClassVar[int]
    STRIDE_FIELD_NUMBER: _ClassVar[int]
    start: int
    stop: int
    stride: int
    def __init__(self, start: _Optional[int] = ..., stop: _Optional[int] = ..., stride: _Optional[int] = ...) -> None: ...

class RunDesc(_message.Message):
    __slots__ = ("entry", "epochs", "split", "evaluate", "keep_best", "stop_after", "stop_after_setting", "min_delta", "keep_last", "best_checkpoints", "plateaus")
    ENTRY_FIELD_NUMBER: _ClassVar[int]
    EPOCHS_FIELD_NUMBER: _ClassVar[int]
    SPLIT_FIELD_NUMBER: _ClassVar[int]
    EVALUATE_FIELD_NUMBER: _ClassVar[int]
    KEEP_BEST_FIELD_NUMBER: _ClassVar[int]
    STOP_AFTER_FIELD_NUMBER: _ClassVar[int]
    STOP_AFTER_SETTING_FIELD_NUMBER: _ClassVar[int]
    MIN_DELTA_FIELD_NUMBER: _ClassVar[int]
    KEEP_LAST_FIELD_NUMBER: _ClassVar[int]
    BEST_CHECKPOINTS_FIELD_NUMBER: _ClassVar[int]
    PLATEAUS_FIELD_NUMBER: _ClassVar[int]
    entry: str
    epochs: int
    split: str
    evaluate: EvaluateDesc
    keep_best: KeepBestDesc
    stop_after: int
    stop_after_setting: str
    min_delta: NumberDesc
    keep_last: bool
    best_checkpoints: int
    plateaus: _containers.RepeatedCompositeFieldContainer[PlateauDesc]
    def __init__(self, entry: _Optional[str] = ..., epochs: _Optional[int] = ..., split: _Optional[str] = ..., evaluate: _Optional[_Union[EvaluateDesc, _Mapping]] = ..., keep_best: _Optional[_Union[KeepBestDesc, _Mapping]] = ..., stop_after: _Optional[int] = ..., stop_after_setting: _Optional[str] = ..., min_delta: _Optional[_Union[NumberDesc, _Mapping]] = ..., keep_last: bool = ..., best_checkpoints: _Optional[int] = ..., plateaus: _Optional[_Iterable[_Union[PlateauDesc, _Mapping]]] = ...) -> None: ...

class PlateauDesc(_message.Message):
    __slots__ = ("state", "metric", "direction", "factor", "patience", "min_delta", "cooldown")
    STATE_FIELD_NUMBER: _ClassVar[int]
    METRIC_FIELD_NUMBER: _ClassVar[int]
    DIRECTION_FIELD_NUMBER: _ClassVar[int]
    FACTOR_FIELD_NUMBER: _ClassVar[int]
    PATIENCE_FIELD_NUMBER: _ClassVar[int]
    MIN_DELTA_FIELD_NUMBER: _ClassVar[int]
    COOLDOWN_FIELD_NUMBER: _ClassVar[int]
    state: str
    metric: str
    direction: Direction
    factor: NumberDesc
    patience: NumberDesc
    min_delta: NumberDesc
    cooldown: NumberDesc
    def __init__(self, state: _Optional[str] = ..., metric: _Optional[str] = ..., direction: _Optional[_Union[Direction, str]] = ..., factor: _Optional[_Union[NumberDesc, _Mapping]] = ..., patience: _Optional[_Union[NumberDesc, _Mapping]] = ..., min_delta: _Optional[_Union[NumberDesc, _Mapping]] = ..., cooldown: _Optional[_Union[NumberDesc, _Mapping]] = ...) -> None: ...

class NumberDesc(_message.Message):
    __slots__ = ("number", "setting")
    NUMBER_FIELD_NUMBER: _ClassVar[int]
    SETTING_FIELD_NUMBER: _ClassVar[int]
    number: float
    setting: str
    def __init__(self, number: _Optional[float] = ..., setting: _Optional[str] = ...) -> None: ...

class EvaluateDesc(_message.Message):
    __slots__ = ("entry", "split", "every")
    ENTRY_FIELD_NUMBER: _ClassVar[int]
    SPLIT_FIELD_NUMBER: _ClassVar[int]
    EVERY_FIELD_NUMBER: _ClassVar[int]
    entry: str
    split: str
    every: int
    def __init__(self, entry: _Optional[str] = ..., split: _Optional[str] = ..., every: _Optional[int] = ...) -> None: ...

class KeepBestDesc(_message.Message):
    __slots__ = ("metric", "direction")
    METRIC_FIELD_NUMBER: _ClassVar[int]
    DIRECTION_FIELD_NUMBER: _ClassVar[int]
    metric: str
    direction: Direction
    def __init__(self, metric: _Optional[str] = ..., direction: _Optional[_Union[Direction, str]] = ...) -> None: ...

class FileDesc(_message.Message):
    __slots__ = ("path", "bytes", "sha256")
    PATH_FIELD_NUMBER: _ClassVar[int]
    BYTES_FIELD_NUMBER: _ClassVar[int]
    SHA256_FIELD_NUMBER: _ClassVar[int]
    path: str
    bytes: int
    sha256: bytes
    def __init__(self, path: _Optional[str] = ..., bytes: _Optional[int] = ..., sha256: _Optional[bytes] = ...) -> None: ...

class MemoryPlan(_message.Message):
    __slots__ = ("arena_bytes", "lower_bound", "optimal", "file_bytes")
    ARENA_BYTES_FIELD_NUMBER: _ClassVar[int]
    LOWER_BOUND_FIELD_NUMBER: _ClassVar[int]
    OPTIMAL_FIELD_NUMBER: _ClassVar[int]
    FILE_BYTES_FIELD_NUMBER: _ClassVar[int]
    arena_bytes: int
    lower_bound: int
    optimal: bool
    file_bytes: int
    def __init__(self, arena_bytes: _Optional[int] = ..., lower_bound: _Optional[int] = ..., optimal: bool = ..., file_bytes: _Optional[int] = ...) -> None: ...
