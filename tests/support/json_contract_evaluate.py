"""The shapes of ``prescope evaluate`` in docs/json.md."""

from json_strict import Strict


class BinShape(Strict):
    forecasts: int
    said: float
    happened: float


class HorizonShape(Strict):
    horizon: int
    recall: float | None
    wide_recall: float | None
    brier_skill: float | None
    calibration_error: float | None
    soft_count_error: float | None
    hard_count_error: float | None
    four_in_six: float | None
    event_error: float | None
    worst_brier_skill: float | None
    worst_event_error: float | None
    reliability: list[BinShape]


class CellShape(Strict):
    layer: int
    horizon: int
    recall: float | None
    wide_recall: float | None
    brier_skill: float | None
    calibration_error: float | None
    soft_count_error: float | None
    hard_count_error: float | None
    four_in_six: float | None
    event_error: float | None


class BatchShape(Strict):
    batch: int
    piece: int | None
    steps: int
    gate_ns: int
    horizons: list[HorizonShape]
    cells: list[CellShape]


class PredictorShape(Strict):
    name: str
    missing: str | None
    batches: list[BatchShape]


class PlanRowShape(Strict):
    batch: int
    steps: int
    policy: str
    predictor: str
    realised_ns: int
    no_prefetch_ns: int
    clairvoyant_ns: int
    useful: int
    wasted: int
    late: int
    moved_bytes: int
    wasted_bytes: int
    gain: float
    clairvoyant_share: float | None


class Evaluate(Strict):
    trace: str
    predictor: str
    model: str
    layers: int
    experts: int
    top_k: int
    judged_sequences: int
    learned_sequences: int
    warning: str | None
    preset: str | None
    slots: int
    resident_fraction: float
    charged: bool
    predictors: list[PredictorShape]
    plans: list[PlanRowShape]
    output: str | None
