"""Detectors of driver errors (XIDs): the same few questions, asked about other numbers.

What a number means is NVIDIA's XID catalogue; each cause names its own. An XID says when something happened and not how
long it lasted, so most of them are events; the length comes from what the driver asks for until it is done.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Literal

from warehouse.causes.examples import dcgm, gpu, series
from warehouse.model.cause import Case, Detector, Threshold, Told, Witness
from warehouse.model.state import State

Severity = Literal["page", "ticket", "info"]

LAST = "gpuminutes_gpu_xid_last_timestamp_seconds"
ACTION = "gpuminutes_gpu_recovery_action"
GPU = "node, slot, uuid"

# What an application can bring about by itself, and what follows other XIDs: seen every day in a healthy fleet.
EVERYDAY = (13, 31, 43, 45)

# Every XID after which a cause of ours asks for a reset or reboot (NVIDIA's XID catalogue: RESET_GPU, RESTART_BM and
# the workflows of 48, 74 and 144 to 150). Xid 154 is the demand itself.
NEEDS_RESET = (
    *(46, 48, 62, 64, 74, 79, 95, 109, 110, 119, 120, 122, 136, 140, 143),
    *(*range(144, 151), 155, 157, 158, 161, 169),
)

# Without label churn: another code, another text of it or another pod makes another series.
_DCGM = ("DCGM_FI_DEV_XID_ERRORS", "DCGM_FI_DEV_XID_ERROR")
_DCGM_COUNT = "DCGM_EXP_XID_ERRORS_COUNT"

_FRESH = Threshold(
    "fresh_seconds",
    125,
    "s",
    "an event is on the page within a scrape or two; the same within two minutes is one event; our judgement",
)
SAME = Threshold(
    "same_seconds", 60, "s", "what the driver asks for (Xid 154) follows its reason within seconds; our judgement"
)


def any_of(codes: Iterable[int]) -> str:
    """Gives the numbers as a matcher's regular expression."""
    return "|".join(map(str, codes))


def last(codes: Iterable[int]) -> str:
    """Gives PromQL for the Unix time of the last of these XIDs per GPU."""
    return f'max by ({GPU}) ({LAST}{{xid=~"{any_of(codes)}"}})'


def since_boot(time: str) -> str:
    """Gives those of some times per GPU that lie after their node's boot, where that is known."""
    boot = "max by (node) (node_boot_time_seconds)"
    return f"({time} unless on ({GPU}) ({time} < on (node) group_left () {boot}))"


def answered(codes: Iterable[int]) -> str:
    """Gives the time of the last of these XIDs per GPU, if the driver's present demand can come from it.

    Each change of the demand is an Xid 154 (from driver R565 on); an XID from before the last one is not its reason.
    """
    time = last(codes)
    return f"({time} unless on ({GPU}) ({time} < on ({GPU}) {last([154])} - $same_seconds))"


def demanded(action: str = ACTION) -> str:
    """Gives what the driver asks for, of GPUs that are not fit for work until it is done.

    A GPU that is to be drained (3 and 4), or whose IMEX domain is to be recovered (5), may finish its work. DCGM writes
    large numbers where it has none.
    """
    return f"max by ({GPU}) ({action}) > 0 < 8 != 3 != 4 != 5"


def event(
    key: str, codes: tuple[int, ...], state: State, why: str, severity: Severity = "ticket", also: tuple[str, ...] = ()
) -> Detector:
    """Gives the detector that counts these XIDs as our exporter sees them, from the driver and from the kernel log."""
    row = series(LAST, gpu(1), xid=str(codes[0]))
    return Detector(
        key=key,
        version=1,
        expr=f"{last(codes)} > time() - $fresh_seconds",
        scope="gpu",
        state=state,
        min_duration_ms=0,
        why=why,
        momentary=True,
        dated_by_value=True,
        severity=severity,
        thresholds=(_FRESH,),
        cases=(
            Case(f"Xid {codes[0]} once", {row: "_x40 597x39"}, told=(Told("n1/1", 597, 597),), also=also),
            Case(
                f"Xid {codes[-1]} on one GPU, and soon on another",
                {
                    series(LAST, gpu(0), xid=str(codes[-1])): "_x40 597x39",
                    series(LAST, gpu(1), xid=str(codes[-1])): "_x43 641x36",
                },
                told=(Told("n1/0", 597, 597), Told("n1/1", 641, 641)),
                also=also,
            ),
            Case("one of yesterday, told again by an exporter that starts", {row: "_x40 -80000x39"}, also=also),
            Case("only what follows other faults", {series(LAST, gpu(1), xid="45"): "_x40 597x39"}),
        ),
    )


def event_dcgm(
    key: str, codes: tuple[int, ...], state: State, why: str, severity: Severity = "ticket", also: tuple[str, ...] = ()
) -> Detector:
    """Gives the detector that counts these XIDs as dcgm-exporter shows them.

    Its gauge holds the last code for ever, so only a change that was seen counts; a repeat of the same code is not
    seen. Its count of the last minutes, where a site has it on, sees repeats too.
    """
    code = str(codes[0])
    held = {series(_DCGM[0], dcgm(1)): f"0x39 {code}x39"}
    renamed = {
        series(_DCGM[1], dcgm(1), err_code="0"): "0x39 _x40",
        series(_DCGM[1], dcgm(1), err_code=code): f"_x40 {code}x39",
    }
    counted = {series(_DCGM_COUNT, dcgm(0), xid=str(codes[-1]), window_size_in_ms="300000"): "_x40 1x19 _x20"}
    return Detector(
        key=key,
        version=1,
        expr=f"({_turned(codes)}) or on ({GPU}) {_counted(codes)}",
        coarse=_coarse(codes),
        scope="gpu",
        state=state,
        min_duration_ms=0,
        why=why,
        momentary=True,
        severity=severity,
        cases=(
            Case(f"the gauge turns to {code}", held, told=(Told("n1/1", 600, 600),), also=also),
            Case(f"Xid {codes[-1]} by the count of five minutes", counted, told=(Told("n1/0", 600, 600),), also=also),
            Case("by its new name, the code in a label too", renamed, told=(Told("n1/1", 600, 600),), also=also),
            Case("an old code that stands since long", {series(_DCGM[0], dcgm(1)): f"{code}x79"}, also=also),
            Case("only what follows other faults", {series(_DCGM[0], dcgm(1)): "0x39 45x39"}),
        ),
    )


def shown_dcgm(codes: Iterable[int]) -> str:
    """Gives the GPUs for which dcgm-exporter shows one of these codes, as its last one or in its count."""
    codes = tuple(codes)
    return f"{_held(codes)} or on ({GPU}) {_counted(codes)}"


def _held(codes: Iterable[int], shift: str = "") -> str:
    shown = " or ".join(f"{name}{shift} == {code}" for name in _DCGM for code in codes)
    return f"max by ({GPU}) ({shown})"


def _turned(codes: Iterable[int]) -> str:
    """Gives where the gauge shows one of the codes, and two minutes ago was there and did not."""
    codes = tuple(codes)
    before = f"group by ({GPU}) ({' or '.join(f'{name} offset 125s' for name in _DCGM)})"
    return f"{_held(codes)} unless on ({GPU}) {_held(codes, ' offset 125s')} and on ({GPU}) {before}"


def _counted(codes: Iterable[int]) -> str:
    return f'max by ({GPU}) ({_DCGM_COUNT}{{xid=~"{any_of(codes)}"}}) > 0'


def _coarse(codes: Iterable[int]) -> str:
    parts = [
        f"max by (node) (max_over_time({name}[$span]) >= {low} and min_over_time({name}[$span]) <= {high})"
        for name in _DCGM
        for low, high in _hulls(codes)
    ]
    counted = f'max by (node) (max_over_time({_DCGM_COUNT}{{xid=~"{any_of(codes)}"}}[$span])) > 0'
    return " or ".join([*parts, counted])


def _hulls(codes: Iterable[int]) -> list[tuple[int, int]]:
    """Gives ranges that hold all codes and none of every day, so that few GPUs lie in them without a fault."""
    found: list[tuple[int, int]] = []
    for code in sorted(codes):
        if found and not any(found[-1][1] < usual < code for usual in EVERYDAY):
            found[-1] = found[-1][0], code
        else:
            found.append((code, code))
    return found


def recovery(
    key: str, codes: tuple[int, ...], why: str, also: tuple[str, ...] = (), severity: Severity = "ticket"
) -> Detector:
    """Gives the detector of a GPU that is lost to work from one of these XIDs until it was reset.

    That is as long as the driver asks for a reset or a reboot, which drivers say from R565 on.
    """
    row = series(LAST, gpu(0), xid=str(codes[0]))
    asked, since = series(ACTION, gpu(0)), series(LAST, gpu(0), xid="154")
    return Detector(
        key=key,
        version=1,
        expr=f"{since_boot(answered(codes))} and on ({GPU}) ({demanded()})",
        coarse=f'max by (node) (max_over_time({LAST}{{xid=~"{any_of(codes)}"}}[$span]))',
        scope="gpu",
        state=State.DOWN,
        min_duration_ms=30_000,
        why=why,
        dated_by_value=True,
        severity=severity,
        witnesses=(Witness(ACTION, "", ("node", "slot"), ">", "0"),),
        thresholds=(SAME,),
        cases=(
            Case(
                "the driver asks for a reset, and gets it after ten minutes",
                {row: "_x40 597x79", asked: "0x39 1x39 0x39", since: "_x40 598x39 1195x39"},
                told=(Told("n1/0", 597, 1200),),
                also=also,
            ),
            Case(
                "it happened, and the GPU works on",
                {row: "_x40 597x79", asked: "0x119"},
                also=also,
            ),
            Case(
                "a later demand has another reason",
                {row: "_x40 597x79", asked: "0x79 1x39", since: "_x79 1199x39"},
                also=(*also, "gpu_needs_recovery"),
            ),
        ),
    )


def near(time: str, other: str) -> str:
    """Gives those times per GPU that have another event of the GPU close by."""
    return f"({time} and on ({GPU}) abs({time} - on ({GPU}) {other}) <= $same_seconds)"


def rows(codes: Mapping[int, str], index: int = 0) -> dict[str, str]:
    """Gives XID rows of one GPU in promtool's notation."""
    return {series(LAST, gpu(index), xid=str(code)): values for code, values in codes.items()}
