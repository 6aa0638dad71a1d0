"""Measure a rank's own time per step: the time until its last gradient is ready, without waits for other ranks.

DistributedDataParallel waits for other ranks at two places: at the end of the backward pass for the sums of gradients,
and at the begin of the forward pass for the chief's buffers. Both are left out. The optimizer's step comes after the
wait and is left out too. With CUDA the time of the device counts if it is longer than the time of the program.
"""

import time
from typing import Any, Callable, List, Optional, Sequence, Tuple

import torch
from torch import nn

# The parameter with the last gradient is searched for in this many steps.
_SEARCHED_STEPS = 3

Add = Callable[[float, float], None]  # the own time, and the time that waited for data


def own_time_of(models: Sequence[nn.Module], add: Add) -> "Optional[OwnTime]":
    """Return the timer of the first model that exchanges gradients, or None."""
    wrappers = (m for m in models if isinstance(m, nn.parallel.DistributedDataParallel))
    wrapper = next(wrappers, None)
    return None if wrapper is None else OwnTime(wrapper, add)


class OwnTime:
    """Times each step of one DistributedDataParallel model and passes the result to `add`."""

    def __init__(self, model: nn.parallel.DistributedDataParallel, add: Add) -> None:
        self._add = add
        self._ended = 0.0
        self._loaded = 0.0
        self._ready = 0.0
        self._waited = 0.0
        self._last_ready: Optional[nn.Parameter] = None
        self._steps = 0
        self._hooks: List[Any] = []
        self._device = _Device(add) if next(model.parameters()).is_cuda else None
        self._search(model)
        self._sync_buffers = model._sync_buffers
        if model.broadcast_buffers and any(True for _ in model.module.buffers()):
            # Hooks before the two forward passes would measure the same, but take ten times as long.
            model._sync_buffers = self._sync_and_measure

    def begin(self) -> None:
        """Begin a series of steps. The time since the previous series is not part of a step."""
        self._ended = time.perf_counter()

    def loaded(self) -> None:
        """Note that the batch of the next step is there."""
        self._loaded = time.perf_counter()
        self._ready = self._waited = 0.0
        if self._device is not None:
            self._device.start()

    def done(self) -> None:
        """Note that the step is complete."""
        begun, self._ended = self._ended, time.perf_counter()
        if self._last_ready is None or self._hooks:
            self._choose()
        elif self._ready:
            data = self._loaded - begun
            own = data + self._ready - self._loaded - self._waited
            if self._device is None:
                self._add(own, data)
            else:
                self._device.end_step(own, data)

    def _search(self, model: nn.Module) -> None:
        """Watch all parameters for a few steps, to find the one with the last gradient."""
        for parameter in model.parameters():
            if parameter.requires_grad:
                hook = parameter.register_post_accumulate_grad_hook(self._on_any)
                self._hooks.append(hook)

    def _choose(self) -> None:
        self._steps += 1
        if self._steps < _SEARCHED_STEPS or self._last_ready is None:
            return
        for hook in self._hooks:
            hook.remove()
        self._hooks = []
        self._last_ready.register_post_accumulate_grad_hook(self._on_last)

    def _on_any(self, parameter: nn.Parameter) -> None:
        self._last_ready = parameter

    def _on_last(self, parameter: nn.Parameter) -> None:
        # With several backward passes in a step, the time after the first one includes waits.
        if not self._ready:
            self._ready = time.perf_counter()
            if self._device is not None:
                self._device.stop()

    def _sync_and_measure(self) -> None:
        begun = time.perf_counter()
        self._sync_buffers()
        if self._ready:
            return
        if self._device is not None and not self._waited:
            # The device waits for the chief's buffers, too. What it did before in this step is little.
            self._device.start()
        self._waited += time.perf_counter() - begun


class _Device:
    """The time of the CUDA device. The program runs ahead of it, so times are read some steps later."""

    def __init__(self, add: Add) -> None:
        self._add = add
        self._free: List[Tuple[Any, Any]] = []
        self._pending: List[Tuple[Tuple[Any, Any], float, float]] = []
        self._current: Tuple[Any, Any] = self._events()

    def start(self) -> None:
        self._current[0].record()

    def stop(self) -> None:
        self._current[1].record()

    def end_step(self, own_s: float, data_s: float) -> None:
        self._pending.append((self._current, own_s, data_s))
        while self._pending and self._pending[0][0][1].query():
            events, own, data = self._pending.pop(0)
            self._free.append(events)
            self._add(max(own, events[0].elapsed_time(events[1]) / 1000), data)
        self._current = self._free.pop() if self._free else self._events()

    def _events(self) -> Tuple[Any, Any]:
        return torch.cuda.Event(enable_timing=True), torch.cuda.Event(enable_timing=True)
