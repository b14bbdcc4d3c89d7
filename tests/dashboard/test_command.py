"""The command that starts the dashboard: where it listens, what it refuses, how it ends."""

from __future__ import annotations

import os
import signal
import socket
import subprocess
import sys
import urllib.request

import pytest

from tests.conftest import run_cli
from tests.dashboard.server import free_port, running

_NOBODY = "postgresql://reader@127.0.0.1:9/ledger"


@pytest.mark.parametrize(
    ("listen", "said"),
    [
        ("8501", "'8501' is no HOST:PORT such as 127.0.0.1:8501"),
        ("127.0.0.1:0", "is no HOST:PORT"),
        ("127.0.0.1:99999", "is no HOST:PORT"),
        ("0.0.0.0:8501", "the dashboard has no login"),
        ("[::]:8501", "the dashboard has no login"),
        ("example.com:8501", "the dashboard has no login"),
    ],
)
def test_a_wrong_address_is_refused_in_one_line(listen: str, said: str) -> None:
    answer = run_cli(_NOBODY, "dashboard", "--listen", listen)
    assert answer.code == 2
    assert said in answer.err
    assert answer.err.count("\n") == 1


def test_a_taken_port_is_refused_in_one_line() -> None:
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))
        taken.listen()
        port = taken.getsockname()[1]
        answer = run_cli(_NOBODY, "dashboard", "--listen", f"127.0.0.1:{port}")
    assert answer.code == 2
    assert answer.err == f"gpu-minutes: --listen: cannot listen on 127.0.0.1:{port}: Address already in use\n"


def test_without_streamlit_it_says_what_to_install() -> None:
    # Python finds no package whose place in sys.modules is None.
    code = "import sys; sys.modules['streamlit'] = None; from warehouse.cli import main; main()"
    result = subprocess.run([sys.executable, "-c", code, "dashboard"], capture_output=True, text=True, timeout=60)
    assert result.returncode == 2
    assert result.stderr == (
        "gpu-minutes: the dashboard needs streamlit; install it with: pip install 'gpu-minutes[dashboard]'\n"
    )


def test_ctrl_c_ends_it_and_its_server(site_url: str) -> None:
    with running(site_url) as (process, address):
        with urllib.request.urlopen(f"{address}/_stcore/health", timeout=10) as answer:
            assert answer.status == 200
        os.kill(process.pid, signal.SIGINT)
        out, err = process.communicate(timeout=30)
        assert process.returncode == 0
        assert out.splitlines() == [f"dashboard on {address} (Ctrl-C ends it)", "dashboard ended"]
        assert err == ""
    with socket.socket() as probe:
        assert probe.connect_ex(("127.0.0.1", int(address.rsplit(":", 1)[1]))) != 0


def test_beyond_this_machine_it_warns(site_url: str) -> None:
    with running(site_url, "--allow-remote", host="0.0.0.0") as (process, _):
        os.kill(process.pid, signal.SIGTERM)
        _, err = process.communicate(timeout=30)
    assert err == "warning: there is no login; whoever reaches this address reads the whole ledger\n"
    assert free_port() > 0
