"""Passwords and limits of --web.config.file."""

from __future__ import annotations

import base64
import statistics
import subprocess
import sys
import time
from pathlib import Path

import pytest

from exporter.web.auth import BasicAuth
from tests.exporter.conftest import StartExporter
from tests.exporter.harness import environment, request
from tests.exporter.web_file import PASSWORD, basic, hashed, web, web_file


def test_users_and_headers_change_without_a_restart(start: StartExporter, tmp_path: Path) -> None:
    text = f"basic_auth_users: {{ann: {hashed('one')}}}\n"
    path = web_file(tmp_path, text)
    exporter = start(f"--web.config.file={path}")
    assert request(exporter.port, "/", basic("ann", "one"))[0] == 200
    path.write_text(text.replace("ann", "bob") + "http_server_config: {headers: {X-Frame-Options: deny}}\n")
    time.sleep(1.1)
    assert request(exporter.port, "/", basic("ann", "one"))[0] == 401
    status, headers, _ = request(exporter.port, "/", basic("bob", "one"))
    assert (status, headers["X-Frame-Options"]) == (200, "deny")
    path.write_text("basic_auth_users: {bob: plain}")
    time.sleep(1.1)
    assert request(exporter.port, "/", basic("bob", "one"))[0] == 200
    assert request(exporter.port, "/")[0] == 401
    path.unlink()
    time.sleep(1.1)
    assert request(exporter.port, "/")[0] == 401


@pytest.mark.parametrize("path", ["/metrics", "/", "/-/healthy", "/-/ready", "/nothing"])
def test_every_page_needs_the_password(start: StartExporter, path: str, tmp_path: Path) -> None:
    exporter = start(web(tmp_path, f"basic_auth_users: {{ann: {hashed(PASSWORD)}}}"))
    status, headers, body = request(exporter.port, path)
    assert (status, headers["WWW-Authenticate"]) == (401, 'Basic realm="gpu-minutes-exporter", charset="UTF-8"')
    assert body == "a user and a password are needed\n"
    for given in (
        basic("ann", "wrong"),
        basic("eve", PASSWORD),
        basic("", ""),
        {"Authorization": "Bearer x"},
        {"Authorization": "Basic"},
        {"Authorization": "Basic !!!"},
        {"Authorization": "Basic " + base64.b64encode(b"nocolon").decode()},
        {"Authorization": "Basic " + base64.b64encode(b"\xff:\xff").decode()},
    ):
        assert request(exporter.port, path, given)[0] == 401, given
    assert request(exporter.port, path, basic("ann", PASSWORD))[0] != 401
    assert request(exporter.port, path, basic("ann", PASSWORD), method="POST")[0] == 405
    assert request(exporter.port, path, method="POST")[0] == 401


def test_a_right_password_is_computed_once_and_an_unknown_user_takes_as_long_as_a_wrong_one() -> None:
    auth = BasicAuth([("ann", hashed(PASSWORD, 10)), ("bob", hashed("x", 4))])

    def header(user: str, password: str) -> str:
        return basic(user, password)["Authorization"]

    def took_s(user: str, password: str) -> float:
        began_s = time.perf_counter()
        auth.allows(header(user, password))
        return time.perf_counter() - began_s

    first_s = took_s("ann", PASSWORD)
    assert statistics.median(took_s("ann", PASSWORD) for _ in range(9)) < first_s / 5
    wrong_s = statistics.median(took_s("ann", "wrong") for _ in range(7))
    unknown_s = statistics.median(took_s("eve", "wrong") for _ in range(7))
    assert wrong_s / 3 < unknown_s < wrong_s * 3
    assert auth.allows(header("ann", PASSWORD))
    assert not auth.allows(header("bob", PASSWORD))
    assert not auth.allows(header("eve", PASSWORD))


def test_long_and_odd_passwords() -> None:
    long = "x" * 80
    auth = BasicAuth([("ann", hashed(long[:72])), ("zo\u00eb", hashed("p\u00e4ss"))])
    assert auth.allows(basic("ann", long)["Authorization"])  # bcrypt looks at 72 bytes, as the toolkit's does
    assert auth.allows(basic("zo\u00eb", "p\u00e4ss")["Authorization"])
    assert not auth.allows(basic("ann", "x\0y")["Authorization"])


def test_a_rate_limit(start: StartExporter, tmp_path: Path) -> None:
    exporter = start(web(tmp_path, "rate_limit: {interval: 1h, burst: 2}"))
    assert [request(exporter.port, "/-/healthy")[0] for _ in range(4)] == [200, 200, 429, 429]


@pytest.mark.parametrize("package", ["yaml", "bcrypt"])
def test_what_the_base_install_lacks_is_one_line_and_exit_code_2(package: str, tmp_path: Path) -> None:
    flag = web(tmp_path, f"basic_auth_users: {{ann: {hashed('one')}}}")
    code = f"import sys; sys.modules[{package!r}] = None; from exporter.cli import main; sys.exit(main([{flag!r}]))"
    ran = subprocess.run([sys.executable, "-c", code], env=environment(None, None), capture_output=True, text=True)
    assert (ran.returncode, ran.stdout) == (2, "")
    (line,) = ran.stderr.splitlines()
    assert str(tmp_path / "web.yml") in line and line.endswith("pip install 'gpu-minutes[web]'")
