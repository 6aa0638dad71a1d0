"""Checkpoint state without pickled objects.

Since version 2.6, `torch.load` restores only tensors and plain values by default, and since 1.13 it has an option for
that. The state is therefore written in this form, and the few other types of schedulers and callbacks are encoded.
Other objects are pickled separately, and unpickled only if the user declares that the checkpoint is trusted.
"""

import collections
import io
import logging
import os
import pickle
import tarfile
import types
from typing import Any, Callable, Dict, Iterator, List, Optional

import torch

logger = logging.getLogger("determined.pytorch")

TRUST_VARIABLE = "DET_TRUST_PICKLED_CHECKPOINTS"
_TAG = "__determined_type__"
_PLAIN = (type(None), bool, int, float, str, torch.dtype)
_TensorMap = Callable[[torch.Tensor], torch.Tensor]


class UntrustedCheckpointError(RuntimeError):
    """The checkpoint has pickled Python objects, and the caller did not declare it trusted."""


def host_copy() -> _TensorMap:
    """Return a function that copies tensors to the host, because training continues and changes the originals.

    Tensors that share memory are copied once.
    """
    copies: Dict[Any, torch.Tensor] = {}

    def copy(tensor: torch.Tensor) -> torch.Tensor:
        if type(tensor) not in (torch.Tensor, torch.nn.Parameter) or tensor.layout != torch.strided:
            return tensor.detach().clone()
        key = (tensor.device, tensor.data_ptr(), tensor.dtype, tuple(tensor.shape), tensor.stride())
        if key not in copies or not tensor.numel():
            copies[key] = tensor.detach().to("cpu", copy=True)
        return copies[key]

    return copy


def encode(value: Any, on_tensor: _TensorMap, where: str = "checkpoint") -> Any:
    """Convert `value` to tensors and plain values."""
    if isinstance(value, torch.Tensor):
        return on_tensor(value)
    kind = type(value)
    if kind in _PLAIN:
        return value
    if kind is list or kind is tuple:
        items = [encode(item, on_tensor, f"{where}[{i}]") for i, item in enumerate(value)]
        return items if kind is list else tuple(items)
    if kind is dict and _TAG not in value:
        return {k: encode(v, on_tensor, f"{where}[{k!r}]") for k, v in value.items()}
    if kind is collections.OrderedDict:
        return _encode_ordered(value, on_tensor, where)
    for name, (known_type, parts, _) in _TYPES.items():
        if kind is known_type:
            return {_TAG: name, "parts": encode(parts(value), on_tensor, where)}
    return _encode_numpy(value) or _encode_pickled(value, where)


def copied(encoded: Any, on_tensor: _TensorMap) -> Any:
    """Return an encoded value with other tensors."""
    if isinstance(encoded, torch.Tensor):
        return on_tensor(encoded)
    kind = type(encoded)
    if kind is list or kind is tuple:
        return kind(copied(item, on_tensor) for item in encoded)
    if kind is dict:
        return {k: copied(v, on_tensor) for k, v in encoded.items()}
    if kind is collections.OrderedDict:
        items = ((k, copied(v, on_tensor)) for k, v in encoded.items())
        return _with_versions(collections.OrderedDict(items), encoded)
    return encoded


def decode(value: Any, trusted: bool) -> Any:
    kind = type(value)
    if kind is list or kind is tuple:
        return kind(decode(item, trusted) for item in value)
    if kind is collections.OrderedDict:
        for key in value:
            value[key] = decode(value[key], trusted)
        return value
    if kind is not dict:
        return value
    if _TAG not in value:
        return {k: decode(v, trusted) for k, v in value.items()}
    name = value[_TAG]
    if name == "numpy":
        return _decode_numpy(value)
    if name == "pickle":
        return _decode_pickled(value, trusted)
    return _TYPES[name][2](decode(value["parts"], trusted))


def _as_tensor(content: bytes) -> torch.Tensor:
    if not content:
        return torch.empty(0, dtype=torch.uint8)
    return torch.frombuffer(bytearray(content), dtype=torch.uint8)


def _as_bytes(tensor: torch.Tensor) -> bytes:
    try:
        content: bytes = tensor.numpy().tobytes()
    except RuntimeError:
        # This torch was built for another version of numpy, or numpy is missing.
        content = bytes(tensor.tolist())
    return content


def _defaultdict_parts(value: Any) -> List[Any]:
    factory = value.default_factory
    return [getattr(factory, "__name__", None), dict(value)]


_FACTORIES = {f.__name__: f for f in (int, float, list, dict, set, str)}
_TYPES: Dict[str, Any] = {
    "Counter": (collections.Counter, dict, collections.Counter),
    "deque": (
        collections.deque,
        lambda d: [list(d), d.maxlen],
        lambda p: collections.deque(*p),
    ),
    "defaultdict": (
        collections.defaultdict,
        _defaultdict_parts,
        lambda p: collections.defaultdict(_FACTORIES.get(p[0]), p[1]),
    ),
    "set": (set, list, set),
    "frozenset": (frozenset, list, frozenset),
    "dict": (dict, lambda d: list(d.items()), lambda items: dict(tuple(i) for i in items)),
    "complex": (complex, lambda c: [c.real, c.imag], lambda p: complex(*p)),
    "bytes": (bytes, lambda b: _as_tensor(b), lambda t: _as_bytes(t)),
    "Size": (torch.Size, list, torch.Size),
    "device": (torch.device, str, torch.device),
    "namespace": (
        types.SimpleNamespace,
        lambda n: dict(vars(n)),
        lambda d: types.SimpleNamespace(**d),
    ),
}


def _encode_ordered(value: Any, on_tensor: _TensorMap, where: str) -> Any:
    encoded = collections.OrderedDict(
        (k, encode(v, on_tensor, f"{where}[{k!r}]")) for k, v in value.items()
    )
    return _with_versions(encoded, value)


def _with_versions(copy: Any, original: Any) -> Any:
    """Copy the attribute of the dictionary in which modules store the versions of their state."""
    if hasattr(original, "_metadata"):
        copy._metadata = original._metadata
    return copy


def _encode_numpy(value: Any) -> Optional[Dict[str, Any]]:
    dtype = getattr(value, "dtype", None)
    if type(value).__module__ != "numpy" or dtype is None or dtype.kind not in "biuf":
        return None
    raw = _as_tensor(value.tobytes())
    return {_TAG: "numpy", "dtype": dtype.str, "shape": list(value.shape), "raw": raw}


def _decode_numpy(tagged: Dict[str, Any]) -> Any:
    import numpy

    raw = _as_bytes(tagged["raw"])
    array = numpy.frombuffer(raw, dtype=tagged["dtype"]).reshape(tagged["shape"]).copy()
    return array if tagged["shape"] else array[()]


_warned: Dict[str, bool] = {}


def _encode_pickled(value: Any, where: str) -> Dict[str, Any]:
    name = f"{type(value).__module__}.{type(value).__qualname__}"
    try:
        pickled = pickle.dumps(value, protocol=4)
    except Exception as e:
        raise TypeError(
            f"{where} is a {name}, which cannot be saved ({e}): return plain values from state_dict()"
        ) from e
    if not _warned.setdefault(name, False):
        _warned[name] = True
        logger.warning(
            "%s is a %s. It is saved as a pickled object, and resuming needs %s=1 in the environment; "
            "return plain values and tensors from state_dict() to resume without.",
            where,
            name,
            TRUST_VARIABLE,
        )
    return {_TAG: "pickle", "type": name, "where": where, "raw": _as_tensor(pickled)}


def _decode_pickled(tagged: Dict[str, Any], trusted: bool) -> Any:
    if not trusted:
        raise UntrustedCheckpointError(
            f"{tagged['where']} of this checkpoint is a pickled {tagged['type']}, and unpickling can run any code. "
            f"If you trust the author of the checkpoint, set {TRUST_VARIABLE}=1 in the environment "
            "(environment.environment_variables) or pass torch_load_kwargs={'weights_only': False}."
        )
    return pickle.loads(_as_bytes(tagged["raw"]))


def trusted_by_environment() -> bool:
    return os.environ.get(TRUST_VARIABLE, "").lower() in ("1", "true", "yes")


# Types in checkpoints of other tools. Unpickling them does not run code that the file chooses.
_HARMLESS = {
    *(("collections", n) for n in ("OrderedDict", "Counter", "deque", "defaultdict")),
    *(
        (f"numpy.{core}.multiarray", n)
        for core in ("core", "_core")
        for n in ("_reconstruct", "scalar")
    ),
    *(("numpy", n) for n in ("ndarray", "dtype")),
    *(("builtins", n) for n in ("set", "frozenset", "complex", "bytearray", "slice", "range")),
    *(("torch._utils", n) for n in ("_rebuild_tensor", "_rebuild_tensor_v2", "_rebuild_parameter")),
    ("_codecs", "encode"),
    ("torch", "Size"),
    ("torch", "device"),
    ("torch.serialization", "_get_layout"),
}


_ARCHIVE = b"PK\x03\x04"
_MAGIC = 0x1950A86A20F9469CFC6C
_LEGACY_PICKLES = 5


class _Stub:
    """A placeholder for harmless objects while only the names of a pickle are checked."""

    def __new__(cls, *_: Any, **__: Any) -> "_Stub":
        return super().__new__(cls)

    def _ignore(self, *_: Any, **__: Any) -> "_Stub":
        return self

    __call__ = __setstate__ = __setitem__ = append = extend = add = update = _ignore


class _NamesOnly(pickle.Unpickler):
    """Reads a pickle as the real unpickler does, but does not create its objects."""

    def find_class(self, module: str, name: str) -> Any:
        is_dtype_or_storage = module == "torch" and (
            name.endswith("Storage") or isinstance(getattr(torch, name, None), torch.dtype)
        )
        if (module, name) in _HARMLESS or is_dtype_or_storage:
            return _Stub
        raise UntrustedCheckpointError(
            f"it refers to {module}.{name}, and unpickling that can run any code"
        )

    def persistent_load(self, pid: Any) -> Any:
        return _Stub()


def read(path: str, trusted: bool, **torch_load_kwargs: Any) -> Any:
    """Load a state file of this library or of Determined, or any file of torch.save if trusted."""
    options = {"map_location": "cpu", **torch_load_kwargs}
    if options.pop("weights_only", True) is False or trusted:
        return decode(_load(path, False, options), trusted=True)
    try:
        loaded = _load(path, True, options)
    except pickle.UnpicklingError:
        # Torch 1.13 rejects even numbers, and every torch rejects the arrays in Determined's checkpoints.
        _check_names(path)
        loaded = _load(path, False, options)
    return decode(loaded, trusted=False)


def _pickles(path: str) -> Iterator[Any]:
    """Yield the pickles that torch reads from a file: one in an archive, or five in files before torch 1.6."""
    with open(path, "rb") as file:
        is_archive = file.read(4) == _ARCHIVE
    if is_archive:
        yield io.BytesIO(torch._C.PyTorchFileReader(path).get_record("data.pkl"))
        return
    if tarfile.is_tarfile(path):
        raise ValueError("it is a tar archive, which only torch 0.1 wrote")
    with open(path, "rb") as file:
        if _NamesOnly(file).load() != _MAGIC:
            raise ValueError("torch did not write it")
        for _ in range(_LEGACY_PICKLES - 1):
            yield file


def _load(path: str, weights_only: bool, options: Dict[str, Any]) -> Any:
    return torch.load(path, weights_only=weights_only, **options)


def _check_names(path: str) -> None:
    """Reject a file if its pickle names more than tensors and harmless types.

    `torch.load(pickle_module=...)` would not protect, because torch 1.13 ignores it. The pickle is read with torch's
    own reader, because another reader could find another record in a forged archive.
    """
    try:
        for pickled in _pickles(path):
            _NamesOnly(pickled).load()
    except UntrustedCheckpointError as e:
        cause = str(e)
    except Exception as e:
        cause = f"its pickle cannot be checked ({type(e).__name__}: {e})"
    else:
        return
    raise UntrustedCheckpointError(
        f"{path} was not loaded: {cause}. If you trust its author, set {TRUST_VARIABLE}=1 in the environment "
        "(environment.environment_variables) or pass torch_load_kwargs={'weights_only': False}."
    )
