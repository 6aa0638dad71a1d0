"""Compare two files of torch.save, and print the number of equal tensors: compare.py PLAIN CONSOLIDATED."""

import sys
from typing import Any

import torch


def equal_tensors(plain: Any, joined: Any, where: str = "state") -> int:
    if isinstance(plain, torch.Tensor):
        assert type(joined) is torch.Tensor, f"{where} is a {type(joined)}"
        assert plain.dtype == joined.dtype, where
        assert torch.equal(plain, joined), where
        return 1
    if isinstance(plain, dict):
        assert set(plain) == set(joined), f"{where}: {set(plain) ^ set(joined)}"
        return sum(equal_tensors(plain[key], joined[key], f"{where}[{key!r}]") for key in plain)
    if isinstance(plain, list):
        assert len(plain) == len(joined), where
        pairs = zip(plain, joined, strict=True)
        return sum(equal_tensors(a, b, f"{where}[{n}]") for n, (a, b) in enumerate(pairs))
    assert plain == joined, where
    return 0


plain, joined = (torch.load(path, weights_only=True) for path in sys.argv[1:])
print(equal_tensors(plain, {key: joined[key] for key in plain}))
