"""Fixed placements for other engines, as far as their formats allow them."""

from prescope.placement.hot_list import HotList, hottest_of_all, hottest_of_each_layer, whole_layers
from prescope.placement.ktransformers import ktransformers_document, ktransformers_losses
from prescope.placement.llama_cpp import llama_cpp_document, llama_cpp_losses, override_of

__all__ = [
    "HotList",
    "hottest_of_all",
    "hottest_of_each_layer",
    "ktransformers_document",
    "ktransformers_losses",
    "llama_cpp_document",
    "llama_cpp_losses",
    "override_of",
    "whole_layers",
]
