"""What several sources say together: laws over everything they may say."""

from __future__ import annotations

from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import settings as examples
from hypothesis import strategies as st

from exporter.allocation import FREE, Allocations, By, Claim, Device, Holder
from exporter.allocations import discover
from exporter.readings import Identity
from exporter.verdict import MOST_HOLDERS, Gpus, Numbering, Verdict, judge
from tests.exporter.jobs import gpu

DEVICES = st.one_of(
    st.builds(Device, st.just("uuid"), st.sampled_from(["GPU-a", "GPU-b", "GPU-c", "GPU-z"])),
    st.builds(Device, st.sampled_from(["index", "minor", "gres"]), st.sampled_from(["0", "1", "2", "7"])),
    st.builds(Device, st.just("mig"), st.sampled_from(["MIG-1", "MIG-9"])),
)
HOLDERS = st.builds(
    Holder,
    st.sampled_from(["slurm", "k8s", "bare"]),
    st.sampled_from(["", "77", "78"]),
    st.sampled_from(["", "1000"]),
    st.sampled_from(["", "train-0"]),
    st.sampled_from(["", "ml"]),
)
ALLOCATIONS = st.builds(
    Allocations,
    st.lists(st.builds(Claim, HOLDERS, st.frozensets(DEVICES, max_size=3), st.booleans()), max_size=4).map(tuple),
    st.frozensets(DEVICES, max_size=3),
    st.lists(st.tuples(DEVICES, st.just("format")), max_size=2).map(tuple),
    st.sampled_from([FREE, "timeout", "no_data", None]),
)
SAID = st.lists(ALLOCATIONS, max_size=3)
GPUS = st.tuples(
    *(
        st.builds(lambda number, minor, mode: gpu(number, minor, mode), st.just(n), st.integers(-1, 3), MODES)
        for n, MODES in enumerate([st.sampled_from(["", "disabled", "enabled"])] * 3)
    )
)
NUMBERING = st.sampled_from(["auto", "index", "minor"])


def verdicts(
    gpus: tuple[Identity, ...], numbering: Numbering, by_allocation: list[Allocations], by_process: list[Allocations]
) -> dict[str, Verdict]:
    return judge(Gpus(gpus, {"MIG-1": "GPU-a"}, numbering), by_allocation, by_process)[0]


@examples(deadline=None)
@given(GPUS, NUMBERING, SAID, SAID)
def test_every_gpu_has_one_verdict_and_a_reason_exactly_where_it_is_unknown(
    gpus: tuple[Identity, ...], numbering: Numbering, by_allocation: list[Allocations], by_process: list[Allocations]
) -> None:
    found = verdicts(gpus, numbering, by_allocation, by_process)
    assert set(found) == {identity.uuid for identity in gpus}
    for verdict in found.values():
        assert (verdict.allocated is None) == (verdict.reason is not None)
        assert verdict.allocated or not verdict.holders
        assert len(set(verdict.holders)) == len(verdict.holders) <= MOST_HOLDERS


@examples(deadline=None)
@given(GPUS, NUMBERING, SAID, SAID)
def test_the_order_of_sources_changes_neither_held_nor_free(
    gpus: tuple[Identity, ...], numbering: Numbering, by_allocation: list[Allocations], by_process: list[Allocations]
) -> None:
    one = verdicts(gpus, numbering, by_allocation, by_process)
    other = verdicts(gpus, numbering, by_allocation[::-1], by_process[::-1])
    assert {u: v.allocated for u, v in one.items()} == {u: v.allocated for u, v in other.items()}


@examples(deadline=None)
@given(GPUS, NUMBERING, SAID, SAID)
def test_what_processes_show_frees_nothing(
    gpus: tuple[Identity, ...], numbering: Numbering, by_allocation: list[Allocations], by_process: list[Allocations]
) -> None:
    without = verdicts(gpus, numbering, by_allocation, [])
    for uuid, verdict in verdicts(gpus, numbering, by_allocation, by_process).items():
        if verdict.allocated is False:
            assert without[uuid].allocated is False
        if without[uuid].allocated:
            assert verdict.allocated


@examples(deadline=None)
@given(GPUS, NUMBERING, SAID, ALLOCATIONS)
def test_one_more_source_never_frees_what_was_held_and_a_doubt_never_frees(
    gpus: tuple[Identity, ...], numbering: Numbering, said: list[Allocations], more: Allocations
) -> None:
    before = verdicts(gpus, numbering, said, [])
    after = verdicts(gpus, numbering, [*said, more], [])
    doubted = verdicts(gpus, numbering, [*said, Allocations(rest="timeout")], [])
    for uuid in before:
        assert after[uuid].allocated or not before[uuid].allocated
        assert doubted[uuid].allocated is not False


@examples(deadline=None)
@given(GPUS, NUMBERING, SAID)
def test_nobody_asked_is_not_found_and_free_only_where_a_source_says_so(
    gpus: tuple[Identity, ...], numbering: Numbering, said: list[Allocations]
) -> None:
    nobody = verdicts(gpus, numbering, [], [])
    assert {verdict.reason for verdict in nobody.values()} == {"not_found"}
    if not any(allocations.free or allocations.rest == FREE for allocations in said):
        assert all(verdict.allocated is not False for verdict in verdicts(gpus, numbering, said, []).values())


@pytest.mark.parametrize("by", ["index", "minor", "gres"])
@pytest.mark.parametrize("numbering", ["index", "minor"])
def test_a_number_that_fits_no_gpu_may_be_one_whose_number_the_driver_does_not_say(
    by: By, numbering: Numbering
) -> None:
    gpus = (gpu(0), replace(gpu(1), index=None, minor=None))
    held = Claim(Holder("slurm", "77"), frozenset({Device(by, "1")}))
    found = verdicts(gpus, numbering, [Allocations((held,), rest=FREE)], [])
    assert (found["GPU-a"].allocated, found["GPU-b"].allocated) == (False, None)
    assert found["GPU-b"].reason == "unknown_device"


def test_one_workload_of_two_sources_is_one_row_and_users_without_a_job_stay_apart() -> None:
    here = frozenset({Device("uuid", "GPU-a")})
    said = [
        Allocations((Claim(Holder("slurm", "77"), here), Claim(Holder("slurm", "77", "1000"), here))),
        Allocations((Claim(Holder("slurm", "77"), here),)),
    ]
    assert verdicts((gpu(0),), "auto", said, [])["GPU-a"].holders == (Holder("slurm", "77", "1000"),)
    bare = [Allocations(tuple(Claim(Holder("bare", user=user), here) for user in ("1000", "1001", "1000")))]
    assert [holder.user for holder in verdicts((gpu(0),), "auto", [], bare)["GPU-a"].holders] == ["1000", "1001"]


def test_sources_are_found_by_their_files() -> None:
    assert list(discover()) == ["kubernetes", "mapping", "process", "slurm"]
