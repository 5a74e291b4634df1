"""Building a transformers model whose experts stay in the checkpoint."""

from prescope.runtime.plugin.load.build import build_from_checkpoint
from prescope.runtime.plugin.load.link import attach_store, store_of
from prescope.runtime.plugin.load.loaded import Loaded, load
from prescope.runtime.plugin.load.progress import LoadProgress

__all__ = ["LoadProgress", "Loaded", "attach_store", "build_from_checkpoint", "load", "store_of"]
