"""Expected times of a coming layer's experts from a forecast, in compiled code."""

from __future__ import annotations

import numba
import numpy as np
import numpy.typing as npt

from prescope.formulation.demand import FloatArray, IntArray
from prescope.runtime.control.step_state import NEVER

BoolArray = npt.NDArray[np.bool_]


@numba.njit(cache=True, error_model="numpy")
def fill_held(resident: BoolArray, arrival_ns: IntArray, held: BoolArray) -> None:
    """Mark experts that are on the device or on their way."""
    for expert in range(held.shape[0]):
        held[expert] = resident[expert] | (arrival_ns[expert] != NEVER)


@numba.njit(cache=True, error_model="numpy")
def fill_expected_costs(
    probability: FloatArray,
    gpu_row: IntArray,
    cpu_row: IntArray,
    copy_ns: int,
    tokens: int,
    host_computes: bool,
    cpu_ns: FloatArray,
    gpu_ns: FloatArray,
) -> None:
    """Write the expected time of each expert on either side, as `CostTables.expected_ns` does.

    Parameters
    ----------
    probability
        Probability that the expert is needed, float64 ``[E]``.
    gpu_row, cpu_row
        Time by tokens, int64 ``[>= tokens + 2]``.
    copy_ns
        Time of one copy. Where the host does not compute, who is not brought ahead costs its copy later, and
        then its computation all the same.
    tokens
        Tokens of the step.
    host_computes
        Whether the host runs experts in place.
    cpu_ns
        Holds the expected tokens and receives the time on the host, float64 ``[E]``.
    gpu_ns
        Receives the time on the device, float64 ``[E]``.
    """
    experts = probability.shape[0]
    # Loops without branches and with one kind of work each: the processor takes several experts at once.
    if tokens <= 1:
        # Whoever is needed gets the one token.
        gpu_one, cpu_one, copy = float(gpu_row[1]), float(cpu_row[1]), float(copy_ns)
        for expert in range(experts):
            gpu_ns[expert] = probability[expert] * gpu_one
        if host_computes:
            for expert in range(experts):
                cpu_ns[expert] = probability[expert] * cpu_one
        else:
            for expert in range(experts):
                cpu_ns[expert] = probability[expert] * copy + gpu_ns[expert]
        return
    most = float(tokens)
    for expert in range(experts):
        share = probability[expert] if probability[expert] > 0.0 else 1.0
        cpu_ns[expert] = min(max(cpu_ns[expert] / share, 1.0), most)
    for expert in range(experts):
        share, mean = probability[expert], cpu_ns[expert]
        whole = int(mean)
        rest = mean - whole
        gpu = share * (gpu_row[whole] * (1.0 - rest) + gpu_row[whole + 1] * rest)
        gpu_ns[expert] = gpu
        if host_computes:
            cpu_ns[expert] = share * (cpu_row[whole] * (1.0 - rest) + cpu_row[whole + 1] * rest)
        else:
            cpu_ns[expert] = share * copy_ns + gpu
