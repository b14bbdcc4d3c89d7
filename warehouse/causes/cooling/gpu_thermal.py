"""GPU runs too hot."""

from warehouse.model.cause import Cause
from warehouse.model.state import State

CAUSE = Cause(
    title="GPU runs too hot",
    rank=14,
    state=State.DEGRADED,
    owner="facility",
    signature=(
        "sw_thermal or hw_thermal clock event seconds rise, GPU or memory temperature stands at its "
        "limit, or a fan alarm is raised."
    ),
    duration="minutes to days",
    blast="GPU or node",
    source="Llama 3 (6 interruptions); InfiniteHBD trace (33 fan faults, median 74 h)",
    first_step=(
        "Compare inlet temperature and fan speed with the neighbours; one hot GPU points to paste or heat sink."
    ),
)
