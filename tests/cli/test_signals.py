"""gpu-minutes signals: what is understood, what is refused, and one line for a page that cannot be read."""

from __future__ import annotations

import csv
import io
import json
import threading
from collections.abc import Callable, Iterator
from http.server import BaseHTTPRequestHandler, HTTPServer
from pathlib import Path

import pytest

from tests.conftest import Answer, run_cli
from tests.signals.pages import DATA, INVALID
from warehouse.cli import run

NO_DATABASE = "postgresql://127.0.0.1:1/none"  # the command must not need one

A30 = DATA / "dcgm_mig_a30_device_counters_repeated.prom"
XID = DATA / "dcgm_xid_and_clock_event_windows.prom"

Signals = Callable[..., Answer]


@pytest.fixture
def signals(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> Signals:
    """The command inside this process, in the folder of the samples, without any database."""
    monkeypatch.chdir(DATA)
    monkeypatch.setenv("GPU_MINUTES_DATABASE_URL", NO_DATABASE)

    def call(*arguments: object) -> Answer:
        code = run(["signals", *map(str, arguments)])
        return Answer(code, *capsys.readouterr())

    return call


def test_a_page_as_a_table(signals: Signals) -> None:
    answer = signals(A30.name)
    assert (answer.code, answer.err) == (0, "")
    lines = [line.split() for line in answer.out.splitlines()]
    assert lines[0] == [A30.name + ":", "dcgm"]
    assert answer.out.splitlines()[1] == ("23 samples: 8 used, 6 refused, 2 events, 7 repeated, 0 with 0 unknown names")
    assert ["gpuminutes_gpu_energy_joules_total", "2"] in lines
    assert ["gpuminutes_mig_memory_bytes", "6"] in lines
    assert ["DCGM_FI_DEV_XID_ERRORS", "2", "0"] in lines
    assert any(line[:3] == ["DCGM_FI_DEV_NVLINK_BANDWIDTH_L0", "not_monotone", "6"] for line in lines)


def test_pages_as_json_with_values_and_advice(signals: Signals) -> None:
    answer = signals("--format", "json", A30, XID)
    first, second = json.loads(answer.out)["pages"]
    (energy,) = [family for family in first["families"] if family["family"] == "gpuminutes_gpu_energy_joules_total"]
    assert energy["samples"][0] == {
        "node": "node-a",
        "labels": {"uuid": "GPU-14639b06-e20e-2e3d-e089-9cef34e058cf", "slot": ""},
        "value": 126272106.318,
    }
    (refusal,) = first["refusals"]
    assert refusal["reason"] == "not_monotone" and refusal["what_to_do"]
    assert [event["code"] for event in second["events"]] == ["42", "gpu_idle", "sw_thermal", "hw_thermal"]
    counted = first["used"] + first["repeated"] + first["unknown_name"] + len(first["events"]) + refusal["samples"]
    assert counted == first["read"] == 23


def test_a_page_as_csv(signals: Signals) -> None:
    answer = signals("--format", "csv", DATA / "nge_h200_590.48.01_load.prom")
    rows = list(csv.DictReader(io.StringIO(answer.out)))
    found = {(row["what"], row["name"], row["reason"]): int(row["samples"]) for row in rows}
    assert found["family", "gpuminutes_gpu_memory_bytes", ""] == 4
    assert found["refused", "nvidia_smi_name", "text_as_number"] == 1
    assert found["unknown", "", "unknown_name"] == 72


@pytest.mark.pain(13)
def test_a_page_that_cannot_be_parsed_is_one_line_and_the_others_are_shown(signals: Signals) -> None:
    answer = signals(INVALID, XID.name)
    assert answer.code == 2
    (line,) = answer.err.splitlines()
    assert line.startswith(f"gpu-minutes: {INVALID} line 3: has a value that is no number; the page is refused whole: ")
    assert "DCGM_EXP_XID_ERRORS_COUNT" in answer.out
    alone = signals(INVALID)
    assert (alone.code, alone.out, alone.err.count("\n")) == (2, "", 1)


def test_standard_input_and_the_node_of_a_page_that_names_none() -> None:
    page = b'DCGM_FI_DEV_GPU_TEMP{gpu="0"} 40\n'
    answer = run_cli(NO_DATABASE, "signals", "-", "--node", "n1", "--format", "json", stdin=page)
    (found,) = json.loads(answer.out)["pages"]
    assert (found["page"], found["without_uuid"]) == ("standard input", 1)
    assert found["families"][0]["samples"][0]["node"] == "n1"


def test_a_page_of_nothing_that_is_known(signals: Signals, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "page").write_text("node_load1 0.5\n")
    monkeypatch.chdir(tmp_path)
    answer = signals("page")
    assert answer.code == 0
    assert answer.out == (
        "page: no exporter that is known\n1 samples: 0 used, 0 refused, 0 events, 0 repeated, 1 with 1 unknown names\n"
    )


@pytest.fixture
def exporter() -> Iterator[str]:
    """An HTTP server that gives a page under /metrics."""

    class Page(BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            self.send_response(200 if self.path == "/metrics" else 404)
            self.end_headers()
            self.wfile.write(XID.read_bytes())

        def log_message(self, *_: object) -> None:
            """Says nothing."""

    server = HTTPServer(("127.0.0.1", 0), Page)
    thread = threading.Thread(target=server.serve_forever)
    thread.start()
    yield f"127.0.0.1:{server.server_port}"
    server.shutdown()
    thread.join()
    server.server_close()


def test_a_page_by_its_address_without_the_password_in_it(signals: Signals, exporter: str) -> None:
    answer = signals(f"http://user:hunter2@{exporter}/metrics")
    assert answer.code == 0
    assert answer.out.startswith(f"http://{exporter}/metrics: dcgm\n4 samples: 0 used, 0 refused, 4 events")
    missing = signals(f"http://user:hunter2@{exporter}/nothing")
    assert (missing.code, missing.err) == (1, f"gpu-minutes: http://{exporter}/nothing: answered HTTP 404\n")


@pytest.mark.parametrize(
    ("page", "code", "reason"),
    [
        ("http://127.0.0.1:1/metrics", 1, "http://127.0.0.1:1/metrics: cannot be reached"),
        ("missing.prom", 2, "missing.prom: cannot be read: No such file or directory"),
        (".", 2, ".: cannot be read: Is a directory"),
    ],
)
def test_what_cannot_be_reached_is_one_line(signals: Signals, page: str, code: int, reason: str) -> None:
    answer = signals(page)
    assert (answer.code, answer.out) == (code, "")
    assert answer.err.startswith(f"gpu-minutes: {reason}") and answer.err.count("\n") == 1
