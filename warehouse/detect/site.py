"""What differs from site to site: labels that name hosts, jobs of the scrapes, thresholds of detectors."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from types import MappingProxyType
from typing import Final

from warehouse.model.cause import Detector

OURS: Final = "ours"

# By who writes the series: labels that name the host, in order, the first that is not empty wins and loses its port.
# The scrape target's own `node` stands first wherever a site sets one. dcgm-exporter: NODE_LABELS of
# `warehouse.signals.alias`. `instance` is the address of the target, which for node_exporter is the host's; of a pod
# or of kube-state-metrics it is not, and of a BMC that is asked over the network it is the BMC's.
LABELS: Final[Mapping[str, tuple[str, ...]]] = MappingProxyType(
    {
        OURS: ("node",),
        "dcgm": ("node", "Hostname", "hostname"),
        "nvidia_smi": ("node", "instance"),
        "node_exporter": ("node", "nodename", "instance"),
        "kubernetes": ("node",),
        "slurm": ("node",),
        "ipmi": ("node", "instance"),
        "vllm": ("node",),
        "other": ("node", "instance"),
    }
)

# Values of the label `job` of scrape targets, by the name that detectors use.
JOBS: Final[Mapping[str, tuple[str, ...]]] = MappingProxyType(
    {
        "gpu-minutes": ("gpu-minutes", "gpu-minutes-exporter"),
        "dcgm": ("dcgm", "dcgm-exporter", "nvidia-dcgm-exporter", "gpu-metrics"),
        "nvidia_smi": ("nvidia_gpu_exporter", "nvidia-gpu-exporter"),
        "node": ("node", "node-exporter", "node_exporter"),
        "slurm": ("slurm", "slurm-exporter", "slurm_exporter"),
        "kube-state-metrics": ("kube-state-metrics",),
        "vllm": ("vllm",),
    }
)

# Labels that name an endpoint of serving: the pod, else the address of the target.
ENDPOINT: Final = ("pod", "exported_pod", "instance")


@dataclass(frozen=True, slots=True)
class Tuning:
    """What a site set of one detector: whether it runs, how long a hit must last, thresholds by name."""

    enabled: bool = True
    min_duration_ms: int | None = None
    thresholds: Mapping[str, float] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class Site:
    """How a site's Prometheus names things, and how its detectors are tuned; without arguments, the defaults.

    Attributes:
        labels: per writer the labels that name the host, in order.
        jobs: per scrape the values of `job`.
        endpoint: labels that name an endpoint, in order.
        scopes: per endpoint its scope in the fleet, where no label of a GPU tells it.
        tuning: per detector key.
    """

    labels: Mapping[str, tuple[str, ...]] = field(default_factory=lambda: LABELS)
    jobs: Mapping[str, tuple[str, ...]] = field(default_factory=lambda: JOBS)
    endpoint: tuple[str, ...] = ENDPOINT
    scopes: Mapping[str, str] = field(default_factory=dict)
    tuning: Mapping[str, Tuning] = field(default_factory=dict)

    def enabled(self, detector: Detector) -> bool:
        """Tells whether the site runs a detector."""
        return self.tuning.get(detector.key, Tuning()).enabled

    def min_duration_ms(self, detector: Detector) -> int:
        """Gives how long a hit must last, in milliseconds."""
        found = self.tuning.get(detector.key, Tuning()).min_duration_ms
        return detector.min_duration_ms if found is None else found

    def thresholds(self, detector: Detector) -> dict[str, float]:
        """Gives the numbers of a detector: the site's, else the catalogue's."""
        set_here = self.tuning.get(detector.key, Tuning()).thresholds
        return {t.name: set_here.get(t.name, t.default) for t in detector.thresholds}
