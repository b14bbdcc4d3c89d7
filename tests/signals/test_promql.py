"""The query and the reader of pages say the same, sample by sample, on every real server."""

from __future__ import annotations

import random
from collections.abc import Iterator

import pytest

from exporter import metrics as m
from exporter.family import Family
from tests.detect.server import SERVERS, Signals
from tests.signals.pages import ROWS, SAMPLES, random_page, sample_page
from warehouse.evidence.prometheus import PrometheusClient
from warehouse.model.time import parse_instant
from warehouse.signals.page import Raw
from warehouse.signals.promql import Matcher, Operator, expression
from warehouse.signals.translate import translate

AT = parse_instant("2026-03-02T10:00:00Z")
PER_GPU = [family for family in m.FAMILIES if family.per_gpu]
DCGM = sorted(name for name in ROWS if name.startswith("DCGM_"))
SEED = 20260302

# What docs/prometheus.md says must be set where other exporters run.
OPTIONS: dict[str, list[str]] = {"prometheus": [], "victoria": ["-search.maxQueryLen=256KB"]}


def _pages() -> dict[str, list[Raw]]:
    rng = random.Random(SEED)
    made = {f"made-{number}": random_page(rng, DCGM) for number in range(40)}
    return {name: sample_page(name) for name in SAMPLES} | made


PAGES = _pages()


def put(signals: Signals, raw: Raw, **target: str) -> None:
    """Adds a sample as a scrape would: without empty labels, with those of the target."""
    labels = {label: text for label, text in raw.labels.items() if text}
    signals.put(raw.name, AT, raw.value, **labels, **target)


def _signals() -> Signals:
    signals = Signals()
    for name, page in PAGES.items():
        signals.put("up", AT, 1.0, job="gpu", instance=name)
        for raw in page:
            put(signals, raw, job="gpu", instance=name)
    _both_exporters(signals)
    _pod_of_the_exporter(signals)
    return signals


def _both_exporters(signals: Signals) -> None:
    """One GPU is told by ours and by theirs, another by theirs alone."""
    ours = {"uuid": "GPU-both", "slot": "0000:1a:00", "node": "n1"}
    signals.put("gpuminutes_gpu_power_watts", AT, 300.0, job="gpu-minutes", instance="ours", **ours)
    for uuid, watts in (("GPU-both", 301.0), ("GPU-theirs", 250.0)):
        theirs = {"UUID": uuid, "gpu": "0", "Hostname": "n1.example", "node": "n1", "pci_bus_id": "00000000:1B:00.0"}
        signals.put("DCGM_FI_DEV_POWER_USAGE", AT, watts, job="dcgm", instance="both", **theirs)


def _pod_of_the_exporter(signals: Signals) -> None:
    """A target with a pod of its own, as service discovery adds it: only one GPU has a workload."""
    own = {"job": "dcgm", "instance": "discovered", "pod": "dcgm-exporter-x", "namespace": "monitoring"}
    signals.put("up", AT, 1.0, **own)
    signals.put("DCGM_FI_DEV_GPU_TEMP", AT, 40.0, UUID="GPU-idle", gpu="0", **own)
    signals.put("DCGM_FI_DEV_GPU_TEMP", AT, 60.0, UUID="GPU-busy", gpu="1", exported_pod="train-0", **own)


@pytest.fixture(scope="module", params=sorted(SERVERS))
def client(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Iterator[PrometheusClient]:
    """Each kind of server, which knows all pages at one instant, each as a scrape target."""
    with (
        SERVERS[request.param](tmp_path_factory.mktemp("signals"), _signals(), *OPTIONS[request.param]) as address,
        PrometheusClient(address, timeout_s=60) as found,
    ):
        yield found


Rows = dict[tuple[str, ...], float]


def asked(client: PrometheusClient, family: Family, *matchers: Matcher) -> dict[str, Rows]:
    """Gives what the query says, per target: value by node and the family's labels."""
    found: dict[str, Rows] = {}
    for series in client.query(expression(family, matchers), AT):
        key = tuple(series.labels.get(label, "") for label in ("node", *family.labels))
        rows = found.setdefault(series.labels["instance"], {})
        assert key not in rows
        rows[key] = series.points[0][1]
    return found


@pytest.mark.parametrize("family", PER_GPU, ids=lambda family: family.name)
def test_the_query_says_what_the_reader_says(client: PrometheusClient, family: Family) -> None:
    found = asked(client, family)
    for name, page in PAGES.items():
        read = {(s.node, *s.labels): s.value for s in translate(page).samples if s.family is family}
        assert found.get(name, {}) == read, name


def test_the_pages_touch_most_of_the_tables() -> None:
    """The comparison above is worth little over families that no page fills."""
    filled = {sample.family for page in PAGES.values() for sample in translate(page).samples}
    untold = {f.field for f in PER_GPU if f not in filled and f not in (m.GPU_UP, m.GPU_DOWN_REASON)}
    ours_alone = {
        *("gpu_pcie_errors_total", "gpu_nvlink_bytes_total", "gpu_nvlinks", "gpu_fabric_status", "gpu_allocated"),
        *("gpu_xid_last_timestamp_seconds", "gpu_process_memory_bytes", "field_unavailable"),
    }
    assert untold == ours_alone


def test_ours_speaks_first_and_theirs_stands_in(client: PrometheusClient) -> None:
    found = asked(client, m.GPU_POWER, Matcher("node", "=", "n1"))
    assert found == {
        "ours": {("n1", "GPU-both", "0000:1a:00"): 300.0},
        "both": {("n1", "GPU-theirs", "0000:1b:00"): 250.0},
    }


@pytest.mark.pain(37)
def test_the_pod_of_the_exporter_is_no_workload(client: PrometheusClient) -> None:
    assert set(asked(client, m.GPU_TEMPERATURE)["discovered"]) == {
        ("", "GPU-idle", "", "gpu"),
        ("", "GPU-busy", "", "gpu"),
    }
    found = asked(client, m.GPU_WORKLOAD_INFO, Matcher("instance", "=", "discovered"))
    assert found == {"discovered": {("", "GPU-busy", "", "k8s", "", "", "train-0", "monitoring", ""): 1.0}}


SELECTIONS = [
    (m.GPU_MEMORY, [("instance", "=", "nge_demo_seeded.prom"), ("state", "=", "used")], 2),
    (m.GPU_MEMORY, [("instance", "=", "nge_demo_seeded.prom"), ("state", "=~", "used|free")], 4),
    (m.GPU_MEMORY, [("instance", "=", "nge_demo_seeded.prom"), ("state", "=", "lost")], 0),
    (m.GPU_CLOCK_EVENT_ACTIVE, [("instance", "=", "nge_h200_590.48.01_load.prom"), ("reason", "=", "display")], 1),
    (m.GPU_CLOCK_EVENT_ACTIVE, [("instance", "=", "nge_h200_590.48.01_load.prom"), ("reason", "!=", "display")], 8),
    (m.MIG_ENGINE_ACTIVE, [("instance", "=~", "dcgm_h100.*"), ("gi", "=~", "7|8")], 2),
    (m.GPU_ENERGY, [("instance", "=~", "dcgm_mig_a30.*"), ("node", "=", "node-a")], 2),
    (m.GPU_ENERGY, [("instance", "=~", "dcgm_mig_a30.*"), ("node", "=", "node-b")], 0),
    (m.GPU_POWER, [("instance", "=~", "nge_demo.*"), ("slot", "=", "0000:02:00")], 1),
    (m.GPU_XID_EVENTS, [("instance", "=~", "nge_demo.*"), ("xid", "=~", "7[0-9]"), ("source", "=", "nvml")], 1),
    (m.GPU_WORKLOAD_INFO, [("instance", "=~", "dcgm_timeslicing.*"), ("pod", "=", "gpu-workload-2")], 1),
    (m.GPU_WORKLOAD_INFO, [("instance", "=~", "dcgm_timeslicing.*"), ("kind", "=", "slurm")], 0),
]


@pytest.mark.parametrize(("family", "wanted", "count"), SELECTIONS)
def test_matchers_reach_the_other_exporters(
    client: PrometheusClient, family: Family, wanted: list[tuple[str, Operator, str]], count: int
) -> None:
    """What is selected is what a filter over everything gives."""
    matchers = [Matcher(*one) for one in wanted]
    chosen = {instance: rows for instance, rows in asked(client, family, *matchers).items() if rows}
    labels = ("node", *family.labels)
    everything = {
        instance: {
            key: value
            for key, value in rows.items()
            if all(
                one.allows(({"instance": instance} | dict(zip(labels, key, strict=True)))[one.label])
                for one in matchers
            )
        }
        for instance, rows in asked(client, family).items()
    }
    assert chosen == {instance: rows for instance, rows in everything.items() if rows}
    assert sum(map(len, chosen.values())) == count


@pytest.mark.parametrize(
    ("family", "matcher"),
    [
        (m.GPU_POWER, Matcher("node", "=~", "a|b")),
        (m.GPU_WORKLOAD_INFO, Matcher("pod", "!=", "")),
        (m.MIG_INFO, Matcher("mig_uuid", "=", "MIG-1")),
        (m.GPU_INFO, Matcher("serial", "=", "")),
    ],
)
def test_what_cannot_be_asked_is_refused(family: Family, matcher: Matcher) -> None:
    with pytest.raises(ValueError, match=r"cannot be asked of .*join on"):
        expression(family, [matcher])


def test_a_family_of_the_node_is_asked_as_it_is() -> None:
    assert expression(m.GPUS_VISIBLE) == "gpuminutes_gpus_visible"
    assert expression(m.GPU_UP, [Matcher("node", "=~", 'a"b')]) == 'gpuminutes_gpu_up{node=~"a\\"b"}'
