"""The command: what it says, what it refuses, and its end."""

from __future__ import annotations

import os
import socket
import stat
import time
from pathlib import Path

import httpx
import pytest

from tests.alerts.deliveries import alert, payload
from tests.alerts.serving import serving
from tests.conftest import Cli


@pytest.mark.parametrize(
    ("options", "reason"),
    [
        (["--listen", "9845"], "is no HOST:PORT"),
        (["--listen", "127.0.0.1:0"], "is no HOST:PORT"),
        (["--listen", "127.0.0.1:99999"], "is no HOST:PORT"),
        (["--listen", "203.0.113.7:9845"], "cannot listen on"),
        (["--source", "Über"], "--source: a source has"),
    ],
    ids=str,
)
def test_what_is_refused(cli: Cli, options: list[str], reason: str) -> None:
    answer = cli("serve", *options)
    assert (answer.code, answer.err.splitlines()[-1].count(reason)) == (2, 1), answer.err


def test_a_taken_port_is_said(cli: Cli) -> None:
    with socket.socket() as other:
        other.bind(("127.0.0.1", 0))
        other.listen()
        answer = cli("serve", "--listen", f"127.0.0.1:{other.getsockname()[1]}")
    assert (answer.code, answer.out) == (2, "")
    assert answer.err.splitlines()[-1].startswith("gpu-minutes: --listen: cannot listen on 127.0.0.1:")
    assert "no token" in answer.err


def test_it_serves_until_it_is_told_to_end(database_url: str, tmp_path: Path) -> None:
    with serving(database_url, tmp_path, "--source", "east", "--ignore-label", "pod") as served:
        secret = served.credentials.read_text().strip()
        client = httpx.Client(base_url=served.url, headers={"Authorization": f"Bearer {secret}"}, trust_env=False)
        for pod in ("a", "b"):
            answer = client.post("/v1/alertmanager", content=payload(alert(node="n1", pod=pod)))
            assert answer.status_code == 200, answer.text
        assert client.post("/v1/alertmanager?token=" + secret, content=b"{").status_code == 400
        assert "server" not in answer.headers
        assert served.rows("select source, labels ->> 'node' from alert_episode") == [("east", "n1")]
        client.close()
        served.process.terminate()
        assert served.process.wait(20) == 0
        assert served.process.stdout is not None
        assert served.process.stdout.read().splitlines()[-1] == "API ended"
    said = (tmp_path / "serve.log").read_text()
    assert "delivery of east by token t" in said
    assert (secret in said, "gpm_" in said, "Traceback" in said) == (False, False, False)
    assert stat.S_IMODE(served.credentials.stat().st_mode) == 0o600


def test_a_body_that_ends_early_leaves_nothing(database_url: str, tmp_path: Path) -> None:
    with serving(database_url, tmp_path) as served:
        secret = served.credentials.read_text().strip()
        host, port = served.url.removeprefix("http://").split(":")
        lines = ("POST /v1/alertmanager HTTP/1.1", "Host: x", f"Authorization: Bearer {secret}", "Content-Length: 1000")
        head = "\r\n".join([*lines, "", ""])
        with socket.create_connection((host, int(port))) as sender:
            sender.sendall(head.encode() + b'{"alerts": [')
        time.sleep(0.5)
        assert httpx.get(f"{served.url}/healthz", trust_env=False).status_code == 200
        assert served.rows(
            "select (select count(*) from alert_delivery), (select count(*) from alert_dead_letter)"
        ) == [(0, 0)]
    assert "Traceback" not in (tmp_path / "serve.log").read_text()


def used_s(process: int) -> float:
    """Gives the processor's time that a process has used; the wall's depends on who else is on this machine."""
    cells = Path(f"/proc/{process}/stat").read_text().rpartition(")")[2].split()
    return (int(cells[11]) + int(cells[12])) / os.sysconf("SC_CLK_TCK")


def test_sixty_four_megabytes_and_no_more(database_url: str, tmp_path: Path) -> None:
    """A storm of 10,000 alerts is about 10 MB and is answered within five seconds; beyond the limit nothing is held."""
    with serving(database_url, tmp_path) as served:
        headers = {"Authorization": f"Bearer {served.credentials.read_text().strip()}"}
        storm = payload(*(alert(node=f"n{number}", text="x" * 600) for number in range(10_000)))
        assert len(storm) > 9_000_000
        before_s = used_s(served.process.pid)
        answer = httpx.post(
            f"{served.url}/v1/alertmanager", content=storm, headers=headers, trust_env=False, timeout=60
        )
        assert (answer.status_code, answer.json()["new_events"]) == (200, 10_000)
        assert used_s(served.process.pid) - before_s < 5
        again = httpx.post(f"{served.url}/v1/alertmanager", content=storm, headers=headers, trust_env=False, timeout=60)
        assert (again.status_code, again.json()["repeat"], again.json()["new_events"]) == (200, True, 0)
        big = b" " * (64 * 1024 * 1024 + 1)
        answer = httpx.post(f"{served.url}/v1/alertmanager", content=big, headers=headers, trust_env=False, timeout=60)
        assert answer.status_code == 413
