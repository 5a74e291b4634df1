"""The link from a model to the store that holds its experts on disk."""

from __future__ import annotations

from typing import Any

_ATTRIBUTE = "_prescope_store"


def attach_store(model: Any, store: Any) -> None:
    """Tell a model where its experts are; `prescope.attach` then takes none from its modules.

    Parameters
    ----------
    model
        A model of `build_from_checkpoint`.
    store
        The experts of all its layers.
    """
    # Past nn.Module.__setattr__: the store is no part of the model.
    object.__setattr__(model, _ATTRIBUTE, store)


def store_of(model: Any) -> Any | None:
    """The store that holds a model's experts, or ``None`` when the model holds them itself."""
    return getattr(model, _ATTRIBUTE, None)
