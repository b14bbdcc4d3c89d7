"""One cycle over all GPUs: who answers, what they read, and what they do not say.

Runs in the driver process. A GPU that is gone never costs another GPU its readings.
"""

from __future__ import annotations

from collections.abc import Callable, Hashable, Iterable, Sequence
from dataclasses import dataclass, field
from pathlib import Path

from exporter import metrics as m
from exporter.errors import DriverError, Reason
from exporter.nvml.call import GPU_GONE, PERMANENT, device_count, driver_version, reason_of
from exporter.nvml.identity import device_handle, device_slot, device_uuid, identify, mig_mode
from exporter.nvml.mig import Roster
from exporter.nvml.processes import running
from exporter.nvml.source import Field, Gpu, Refused, Source
from exporter.nvml.sources import SOURCES
from exporter.readings import (
    NVML_SUCCESS,
    GpuReading,
    Identity,
    MigInstance,
    NvmlSnapshot,
    Process,
    Unavailable,
    Value,
)
from exporter.screen import screen
from exporter.suspect import ZeroWatch

Refusal = tuple[Field, Reason]


class _Gone(Exception):
    """The whole GPU does not answer."""

    def __init__(self, reason: Reason) -> None:
        super().__init__(reason)
        self.reason: Reason = reason


@dataclass(slots=True)
class _Outcome:
    """What one source gave."""

    values: list[Value]
    refusals: list[Refusal]


@dataclass(slots=True)
class _Device:
    """A GPU that has been identified, with what need not be asked again at once.

    Attributes:
        gpu: what sources are given; its handle stays valid for the life of the initialisation.
        kept: by source: permanent refusals, and the last slow outcomes.
    """

    gpu: Gpu
    kept: dict[Hashable, _Outcome] = field(default_factory=dict)

    @property
    def identity(self) -> Identity:
        """As of the last static refresh."""
        return self.gpu.identity

    def ask_anew(self) -> None:
        """Forgets what was kept so as not to be asked again."""
        self.kept.clear()
        self.gpu.refused.clear()

    def forget(self) -> None:
        """Nothing known from before holds: the GPU was reset, replaced, or cut anew."""
        self.kept.clear()
        self.gpu.forget()


class Survey:
    """Reads every GPU once per `cycle`, on one initialised driver.

    Args:
        slow_interval_s: how often slow sources are asked.
        static_interval_s: how often identities and permanent refusals are asked again.
        clock: monotonic seconds.
        slots: the only GPUs to touch, by PCI address; None for all that the driver counts.
        pci: folder of the PCI devices in sysfs, to leave alone a GPU that is suspended; None to ask every GPU.
    """

    def __init__(
        self,
        slow_interval_s: float,
        static_interval_s: float,
        clock: Callable[[], float],
        slots: Sequence[str] | None = None,
        pci: Path | None = None,
    ) -> None:
        self._slow_interval_s = slow_interval_s
        self._static_interval_s = static_interval_s
        self._clock = clock
        self._slots = slots
        self._pci = pci
        self._devices: dict[int | str, _Device] = {}
        self._slow_at_s = self._static_at_s = clock()

    def cycle(self, tell: Callable[[str], None] = lambda slot: None) -> NvmlSnapshot:
        """Reads everything that is due.

        Args:
            tell: called with the slot of each GPU before it is asked, and with "" after the last.

        Returns:
            A snapshot; its code is not success when the driver as a whole does not answer, and then it holds
            no GPU.
        """
        now_s = self._clock()
        slow = now_s - self._slow_at_s >= self._slow_interval_s
        static = now_s - self._static_at_s >= self._static_interval_s
        if slow:
            self._slow_at_s = now_s
        if static:
            self._static_at_s = now_s
        try:
            unidentified = self._find_devices(tell)
        except DriverError as exc:
            return NvmlSnapshot(exc.code)
        dropped: list[Reason] = []
        gpus: list[GpuReading] = []
        for device in self._devices.values():
            tell(device.identity.slot)
            gpus.append(self._read(device, slow, static, dropped))
        tell("")
        return NvmlSnapshot(NVML_SUCCESS, driver_version(), tuple(gpus), unidentified, tuple(dropped))

    def _find_devices(self, tell: Callable[[str], None]) -> tuple[tuple[int | str, Reason], ...]:
        """Identifies the GPUs not known yet; gives those that could not be asked."""
        count = device_count()
        wanted: Iterable[int | str] = range(count) if self._slots is None else self._slots
        failed: list[tuple[int | str, Reason]] = []
        for key in wanted:
            if key in self._devices:
                continue
            tell(key if isinstance(key, str) else "")  # by index, nobody knows yet which GPU it is
            try:
                handle = device_handle(key)
                tell(device_slot(handle))
                self._devices[key] = _Device(Gpu(handle, identify(handle)))
            except DriverError as exc:
                failed.append((key, reason_of(exc.code)))
        return tuple(failed)

    def close(self) -> None:
        """Gives back what the driver lent; called once, before it is closed."""
        for device in self._devices.values():
            device.forget()

    def _read(self, device: _Device, slow: bool, static: bool, dropped: list[Reason]) -> GpuReading:
        device.gpu.now_s = self._clock()
        if self._suspended(device.identity.slot):
            device.kept.clear()  # it may sleep for hours; what it said before is old when it wakes
            return GpuReading(device.identity, "suspended")
        try:
            self._refresh(device, static)
            outcomes = [self._outcome(device, n, source, slow, dropped) for n, source in enumerate(SOURCES)]
            refusals = [refusal for outcome in outcomes for refusal in outcome.refusals]
            watch: ZeroWatch = device.gpu.memory.setdefault("zeros", ZeroWatch())
            values, withheld = watch.sift([value for outcome in outcomes for value in outcome.values])
            for value in withheld:
                dropped.append("suspect")
                refusals.append((Field(m.FAMILY_BY_NAME[value.family], value.labels), "suspect"))
            instances = self._instances(device, slow, dropped, refusals)
            processes = self._processes(device, dropped, refusals)
        except _Gone as gone:
            device.forget()
            return GpuReading(device.identity, gone.reason)
        served = [*values, *(value for instance in instances for value in instance.values)]
        return GpuReading(device.identity, None, values, fold_refusals(refusals, served), processes, instances)

    def _suspended(self, slot: str) -> bool:
        """True if the kernel has put the GPU to sleep, from which any question would wake it."""
        if self._pci is None:
            return False
        try:
            status = (self._pci / f"{slot}.0" / "power" / "runtime_status").read_text(encoding="ascii")
        except OSError:
            return False  # a device without runtime power management
        return status.strip() == "suspended"

    def _refresh(self, device: _Device, static: bool) -> None:
        """Proves that the GPU answers, and asks it anew who it is when due or when it has changed."""
        known = device.identity
        try:
            changed = device_uuid(device.gpu.handle) != known.uuid
            if known.mig_mode:  # else the board has no such mode, and says so at the next static refresh
                changed = changed or mig_mode(device.gpu.handle) not in ("", known.mig_mode)
            if changed:
                device.forget()
            if changed or static:
                device.gpu.identity = identify(device.gpu.handle)
                device.ask_anew()
        except DriverError as exc:
            raise _Gone(reason_of(exc.code)) from exc

    def _outcome(self, device: _Device, key: Hashable, source: Source, slow: bool, dropped: list[Reason]) -> _Outcome:
        kept = device.kept.get(key)
        if kept is not None and (_permanent(kept) or (source.slow and not slow)):
            return kept
        outcome = _ask(source, device.gpu, dropped)
        if source.slow or _permanent(outcome):
            device.kept[key] = outcome
        return outcome

    def _instances(
        self, device: _Device, slow: bool, dropped: list[Reason], refusals: list[Refusal]
    ) -> tuple[MigInstance, ...]:
        """The MIG devices of a board that is cut, with what each reads; () for a whole board."""
        if device.identity.mig_mode != "enabled":
            return ()
        roster: Roster = device.gpu.memory.setdefault("mig", Roster())
        try:
            found, refused = roster.look(device.gpu)
        except DriverError as exc:
            refusals.append((Field(m.MIG_INFO), _reason(exc)))
            return ()
        refusals.extend((Field(m.MIG_INFO), reason) for reason in refused)
        instances: list[MigInstance] = []
        for one in found:
            outcomes = [
                self._outcome(device, (one.uuid, one.gi, n), source, slow, dropped)
                for n, source in enumerate(one.sources)
            ]
            values = tuple(value for outcome in outcomes for value in outcome.values)
            refusals.extend(refusal for outcome in outcomes for refusal in outcome.refusals)
            instances.append(MigInstance(one.gi, one.ci, one.uuid, one.profile, values))
        return tuple(instances)

    def _processes(self, device: _Device, dropped: list[Reason], refusals: list[Refusal]) -> tuple[Process, ...] | None:
        """What computes on a board; a refusal for good is not asked for again until the static refresh."""
        kept = device.kept.get("processes")
        if kept is None:
            try:
                return running(device.gpu.handle, dropped)
            except DriverError as exc:
                kept = _Outcome([], [(Field(m.GPU_PROCESSES), _reason(exc))])
                if _permanent(kept):
                    device.kept["processes"] = kept
        refusals.extend(kept.refusals)
        return None


def _permanent(outcome: _Outcome) -> bool:
    return not outcome.values and all(reason in PERMANENT for _, reason in outcome.refusals)


def _reason(exc: DriverError) -> Reason:
    """Why one call gave nothing; raises `_Gone` if that is because the whole GPU does not answer."""
    reason = reason_of(exc.code)
    if reason in GPU_GONE:
        raise _Gone(reason) from exc
    return reason


def _ask(source: Source, gpu: Gpu, dropped: list[Reason]) -> _Outcome:
    """Makes one call; raises `_Gone` if it says that the GPU is."""
    try:
        found = source.read(gpu)
    except DriverError as exc:
        reason = _reason(exc)
        return _Outcome([], [(into, reason) for into in source.fields])
    outcome = _Outcome([], [])
    for into, raw in found:
        if isinstance(raw, Refused):
            why = reason_of(raw)
            if why in GPU_GONE:
                raise _Gone(why)
            outcome.refusals.append((into, why))
            continue
        value = into.value(raw)
        bad = screen(raw, value, into.family)
        if bad is None:
            outcome.values.append(Value(into.family.name, into.labels, value))
        else:
            dropped.append(bad)
            outcome.refusals.append((into, bad))
    return outcome


def fold_refusals(refusals: Iterable[Refusal], values: Iterable[Value]) -> tuple[Unavailable, ...]:
    """Names each missing field once: the family if all of it lacks for one reason, else family/labels."""
    served = {value.family for value in values}
    by_family: dict[str, list[Refusal]] = {}
    for into, reason in refusals:
        by_family.setdefault(into.family.name, []).append((into, reason))
    folded: list[Unavailable] = []
    for name, members in by_family.items():
        reasons = {reason for _, reason in members}
        if name not in served and len(reasons) == 1:
            folded.append(Unavailable(members[0][0].family.field, members[0][1]))
            continue
        folded.extend(Unavailable("/".join((into.family.field, *into.labels)), why) for into, why in members)
    return tuple(folded)
