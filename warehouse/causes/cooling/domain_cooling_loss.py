"""Cooling lost in a rack or row."""

from warehouse.model.cause import Cause
from warehouse.model.state import State

CAUSE = Cause(
    title="Cooling lost in a rack or row",
    rank=10,
    state=State.DEGRADED,
    owner="facility",
    signature=(
        "Temperatures (node_hwmon_temp_celsius, gpuminutes_gpu_temperature_celsius) of many nodes on one"
        " cooling unit climb together, thermal clock events follow, then machines switch off."
    ),
    duration="5 min to hours",
    blast="rack or row",
    source=(
        "Acme paper (a month 5 C warmer had more failures) (Acme figure recalled, not checked at the "
        "source); field experience, no figure"
    ),
    first_step=(
        "Call the facility desk about the cooling unit and shed load in the row before the machines cut "
        "out by themselves."
    ),
)
