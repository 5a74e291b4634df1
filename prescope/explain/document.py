"""Explanations as plain objects for ``--json`` (docs/json.md)."""

from __future__ import annotations

from dataclasses import asdict
from typing import Any

from prescope.explain.explanation import ExpertExplanation, LayerExplanation, PlanExplanation
from prescope.explain.layers import LayerFacts
from prescope.explain.words import expert_sentences, layer_sentences, plan_sentences


def expert_document(found: ExpertExplanation) -> dict[str, Any]:
    """An expert's explanation; the plans of its alternatives are left out."""
    return {
        "makespan_ns": found.makespan_ns,
        "sentences": list(expert_sentences(found)),
        "facts": asdict(found.facts),
        "alternatives": [
            {
                "place": one.place.value,
                "chosen": one.chosen,
                "fixed_ns": one.fixed_ns,
                "replanned_ns": one.replanned_ns,
                "bound_ns": one.bound_ns,
            }
            for one in found.alternatives
        ],
        "residency": asdict(found.residency),
        "prices": asdict(found.prices),
        "break_evens": [asdict(one) for one in found.break_evens],
    }


def layer_document(found: LayerExplanation) -> dict[str, Any]:
    """A layer's explanation."""
    return {
        "makespan_ns": found.makespan_ns,
        "sentences": list(layer_sentences(found)),
        "facts": _facts(found.facts),
        "experts": [asdict(one) for one in found.experts],
        "prices": asdict(found.prices),
    }


def plan_document(found: PlanExplanation) -> dict[str, Any]:
    """Where a plan loses time."""
    return {
        "makespan_ns": found.makespan_ns,
        "ideal_ns": found.ideal_ns,
        "sentences": list(plan_sentences(found)),
        "layers": [
            {**_facts(one), "link_time": price}
            for one, price in zip(found.layers, found.link_prices, strict=True)
        ],
    }


def _facts(facts: LayerFacts) -> dict[str, Any]:
    return {
        **asdict(facts),
        "duration_ns": facts.duration_ns,
        "lost_ns": facts.lost_ns,
        "counts": [[place.value, number] for place, number in facts.counts],
    }
