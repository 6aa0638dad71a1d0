"""Test a trial class on this machine, without a cluster: one batch, one validation and one checkpoint.

`det experiment create --local --test-mode` runs `python3 -m determined.experimental._one_batch MODULE:CLASS`, with
the configuration as JSON in DET_LOCAL_TEST_CONFIG.
"""

import importlib
import json
import os
import sys
from typing import Any, List, Mapping, Optional

from determined._example_hparams import example
from determined._info import LOCAL_TEST_CONFIG

_SHORTEST = {"batches": 1}


def test_one_batch(
    trial_class: type,
    config: Optional[Mapping[str, Any]] = None,  # noqa: PT028 - Determined's name, no test of ours
) -> None:
    """Train, validate and save `trial_class` once. Any error is raised."""
    from determined.exec.harness import framework_of

    settings = {**(config or {})}
    settings["searcher"] = {**(settings.get("searcher") or {}), "max_length": _SHORTEST}
    hparams = example(settings.get("hyperparameters") or {})
    framework = framework_of(trial_class)
    if framework == "keras":
        from determined.keras import _trainer

        _trainer.test_one_batch(trial_class, hparams, settings)
        return
    name = "determined.pytorch" + (".deepspeed" if framework == "deepspeed" else "")
    module = importlib.import_module(name)
    with module.init(hparams=hparams, exp_conf=settings) as context:
        trainer = module.Trainer(trial_class(context), context)
        trainer.fit(test_mode=True, checkpoint_policy="all")


def main(argv: Optional[List[str]] = None) -> int:
    from determined.exec.harness import NoTrialClass, load_trial_class

    (location,) = sys.argv[1:] if argv is None else argv
    config = json.loads(os.environ.get(LOCAL_TEST_CONFIG) or "{}")
    try:
        trial_class = load_trial_class(location)
    except NoTrialClass as e:
        print(f"the entrypoint is wrong: {e}", file=sys.stderr)
        return 1
    test_one_batch(trial_class, config)
    return 0


if __name__ == "__main__":
    sys.exit(main())
