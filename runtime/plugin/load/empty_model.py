"""A model without values: dense weights allocated but not filled, experts without memory."""

from __future__ import annotations

import sys
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import torch

from prescope.runtime.plugin.moe_layers import FAMILIES

_patching = threading.Lock()


def empty_model(config: Any, dtype: torch.dtype) -> Any:
    """Construct the causal language model of a configuration, in evaluation mode.

    Parameters and persistent buffers hold whatever the memory held; other buffers (rotary frequencies) are
    right. The experts' parameters are meta tensors. Weights that the configuration ties are not tied yet.

    Parameters
    ----------
    config
        Of a supported family.
    dtype
        Element type of all floating parameters.
    """
    from transformers import MODEL_FOR_CAUSAL_LM_MAPPING, AutoModelForCausalLM
    from transformers.initialization import no_init_weights

    model_class = MODEL_FOR_CAUSAL_LM_MAPPING[type(config)]
    experts_class = getattr(sys.modules[model_class.__module__], FAMILIES[config.model_type])
    # Both contexts change classes for everyone, so one at a time.
    with _patching, no_init_weights(), _built_on_meta(experts_class):
        model = AutoModelForCausalLM.from_config(config, dtype=dtype)
    return model.eval()


@contextmanager
def _built_on_meta(module_class: Any) -> Iterator[None]:
    stock = module_class.__init__

    def init(self: Any, *args: Any, **kwargs: Any) -> None:
        with torch.device("meta"):
            stock(self, *args, **kwargs)

    module_class.__init__ = init
    try:
        yield
    finally:
        module_class.__init__ = stock
