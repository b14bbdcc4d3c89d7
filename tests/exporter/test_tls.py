"""The exporter behind TLS and passwords: whom it lets in, that it never waits for anyone, and that files may change."""

from __future__ import annotations

import http.client
import json
import logging
import socket
import ssl
import subprocess
import threading
import time
import urllib.parse
import urllib.request
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from exporter.errors import ConfigError
from exporter.web.live import LiveGuard
from tests.exporter.certificates import Authority, Pair
from tests.exporter.conftest import StartExporter
from tests.exporter.harness import Exporter, environment, request, run_exporter
from tests.exporter.web_file import PASSWORD, hashed, web, web_file
from tests.servers import free_port, wait_for


@pytest.fixture
def authority(tmp_path: Path) -> Authority:
    return Authority(tmp_path)


@pytest.fixture
def server(authority: Authority) -> Pair:
    return authority.issue("server")


def tls(pair: Pair, *more: str) -> str:
    """A tls_server_config in one line."""
    parts = (f"cert_file: {pair.cert.name}", f"key_file: {pair.key.name}", *more)
    return f"tls_server_config: {{{', '.join(parts)}}}"


def trusting(authority: Authority, client: Pair | None = None) -> ssl.SSLContext:
    """The context of a client."""
    context = ssl.create_default_context(cafile=str(authority.cert))
    if client is not None:
        context.load_cert_chain(client.cert, client.key)
    return context


def get(
    port: int, context: ssl.SSLContext, headers: dict[str, str] | None = None, path: str = "/-/healthy"
) -> http.client.HTTPResponse:
    """One request by TLS; the body has been read."""
    connection = http.client.HTTPSConnection("127.0.0.1", port, timeout=10, context=context)
    try:
        connection.request("GET", path, headers=headers or {})
        response = connection.getresponse()
        response.read()
        return response
    finally:
        connection.close()


def refused(port: int, context: ssl.SSLContext) -> bool:
    """Whether the connection is closed without an answer."""
    try:
        get(port, context)
    except (OSError, http.client.HTTPException):
        return True
    return False


def test_tls_and_nothing_but_tls(start: StartExporter, authority: Authority, server: Pair, tmp_path: Path) -> None:
    exporter = start(web(tmp_path, tls(server)))
    assert get(exporter.port, trusting(authority)).status == 200
    assert get(exporter.port, trusting(authority), path="/metrics").status == 200
    with pytest.raises((OSError, http.client.HTTPException)):
        request(exporter.port, "/-/healthy")
    assert any("listening on" in line and "TLS, no password" in line for line in exporter.log)


def test_certificate_and_key_in_the_file_itself(
    start: StartExporter, authority: Authority, server: Pair, tmp_path: Path
) -> None:
    client = authority.issue("client", "DNS:prometheus", "clientAuth")
    names = (("cert", server.cert), ("key", server.key), ("client_ca", authority.cert))
    inline = {name: path.read_text() for name, path in names} | {"client_auth_type": "RequireAndVerifyClientCert"}
    # JSON is YAML.
    exporter = start(web(tmp_path, json.dumps({"tls_server_config": inline})))
    assert get(exporter.port, trusting(authority, client)).status == 200
    assert refused(exporter.port, trusting(authority))


def test_client_certificates(start: StartExporter, authority: Authority, server: Pair, tmp_path: Path) -> None:
    auth = "client_auth_type: RequireAndVerifyClientCert, client_ca_file: ca.pem"
    sans = 'client_allowed_sans: [prometheus.example, "::1", "spiffe://x/y"]'
    exporter = start(web(tmp_path, tls(server, auth, sans)))
    for number, (names, status) in enumerate(
        [
            ("DNS:other,DNS:prometheus.example", 200),
            ("IP:::1", 200),
            ("URI:spiffe://x/y", 200),
            ("DNS:prometheus.example.evil", None),
            ("email:prometheus.example@evil", None),
        ]
    ):
        context = trusting(authority, authority.issue(f"client{number}", names, "clientAuth"))
        if status is None:
            assert refused(exporter.port, context), names
        else:
            assert get(exporter.port, context).status == status, names
    stranger = Authority(tmp_path, "stranger").issue("unknown", "DNS:prometheus.example", "clientAuth")
    assert refused(exporter.port, trusting(authority, stranger))
    assert refused(exporter.port, trusting(authority))
    # A certificate for servers is none for clients.
    assert refused(exporter.port, trusting(authority, authority.issue("wrong", "DNS:prometheus.example")))


def test_a_client_certificate_may_be_left_out_where_it_is_optional(
    start: StartExporter, authority: Authority, server: Pair, tmp_path: Path
) -> None:
    auth = "client_auth_type: VerifyClientCertIfGiven, client_ca_file: ca.pem"
    exporter = start(web(tmp_path, tls(server, auth)))
    assert get(exporter.port, trusting(authority)).status == 200
    stranger = Authority(tmp_path, "stranger").issue("unknown", "DNS:x", "clientAuth")
    assert refused(exporter.port, trusting(authority, stranger))


def test_version_cipher_and_curve_are_what_was_asked_for(
    start: StartExporter, authority: Authority, server: Pair, tmp_path: Path
) -> None:
    more = (
        "max_version: TLS12, cipher_suites: [TLS_ECDHE_ECDSA_WITH_AES_256_GCM_SHA384], curve_preferences: [CurveP384]"
    )
    exporter = start(web(tmp_path, tls(server, more)))
    context = trusting(authority)
    with (
        socket.create_connection(("127.0.0.1", exporter.port), 5) as plain,
        context.wrap_socket(plain, server_hostname="localhost") as secured,
    ):
        cipher = secured.cipher()
        assert cipher is not None
        assert (secured.version(), cipher[0]) == ("TLSv1.2", "ECDHE-ECDSA-AES256-GCM-SHA384")
    context.minimum_version = ssl.TLSVersion.TLSv1_3
    assert refused(exporter.port, context)
    other = trusting(authority)
    other.set_ecdh_curve("prime256v1")
    assert refused(exporter.port, other)


def test_who_stops_in_the_handshake_keeps_nobody_waiting(
    start: StartExporter, authority: Authority, server: Pair, tmp_path: Path
) -> None:
    exporter = start(web(tmp_path, tls(server)))
    silent = [socket.create_connection(("127.0.0.1", exporter.port), 5) for _ in range(60)]
    try:
        began_s = time.monotonic()
        assert get(exporter.port, trusting(authority)).status == 200
        assert time.monotonic() - began_s < 5
    finally:
        for one in silent:
            one.close()


def test_a_certificate_that_rotates_is_served_without_a_restart(
    start: StartExporter, authority: Authority, server: Pair, tmp_path: Path
) -> None:
    exporter = start(web(tmp_path, tls(server)))
    assert get(exporter.port, trusting(authority)).status == 200
    after = Authority(tmp_path, "new")
    renewed = after.issue("renewed")
    renewed.cert.replace(server.cert)  # the key still is the old one: they do not fit
    time.sleep(1.1)
    assert get(exporter.port, trusting(authority)).status == 200
    renewed.key.replace(server.key)
    end_s = time.monotonic() + 10
    while refused(exporter.port, trusting(after)) and time.monotonic() < end_s:
        time.sleep(0.2)
    assert get(exporter.port, trusting(after)).status == 200
    assert refused(exporter.port, trusting(authority))
    exporter.stop()
    (error,) = [line for line in exporter.log if "level=error" in line]
    assert "cannot be used: key values mismatch; what held before still holds" in error


@pytest.mark.parametrize(
    ("text", "part"),
    [
        ("tls_server_config: {cert_file: gone.pem, key_file: server.key}", "gone.pem cannot be read: No such file"),
        ("tls_server_config: {cert_file: server.pem, key_file: ca.key}", "key values mismatch"),
        ("tls_server_config: {cert_file: server.key, key_file: server.key}", "cannot be used"),
        ("tls_server_config: {cert_file: server.pem, key_file: locked.key}", "cannot be used"),
        (
            "tls_server_config: {cert_file: server.pem, key_file: server.key, client_ca_file: server.key, "
            "client_auth_type: RequireAndVerifyClientCert}",
            "client CA",
        ),
        ("basic_auth_users: {a: hunter2}", "not a bcrypt hash"),
    ],
)
def test_a_file_that_cannot_be_used_is_one_line_and_exit_code_2(
    text: str, part: str, server: Pair, tmp_path: Path
) -> None:
    command = ["openssl", "ec", "-in", str(server.key), "-aes256", "-passout", "pass:x"]
    subprocess.run([*command, "-out", str(tmp_path / "locked.key")], capture_output=True, check=True)
    ran = run_exporter(web(tmp_path, text), env=environment(None, None))
    assert (ran.returncode, ran.stdout) == (2, "")
    (line,) = ran.stderr.splitlines()
    assert line.startswith(f"gpu-minutes-exporter: {tmp_path / 'web.yml'}: ") and part in line
    assert "hunter2" not in line


def test_tls_that_comes_or_goes_needs_a_restart(server: Pair, tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    now_s = [0.0]
    path = web_file(tmp_path, "")
    guard = LiveGuard(path, lambda: now_s[0])
    assert guard.current().context is None
    path.write_text(tls(server))
    with caplog.at_level(logging.ERROR):
        for now_s[0] in (2.0, 4.0, 6.0):
            assert guard.current().context is None
    assert [record.message for record in caplog.records] == [
        f"{path}: TLS cannot come or go while the exporter runs; restart it; what held before still holds"
    ]
    with pytest.raises(ConfigError):
        LiveGuard(tmp_path / "nothing.yml")


def test_an_emptied_file_opens_nothing(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    now_s = [0.0]
    path = web_file(tmp_path, f"basic_auth_users: {{prometheus: {hashed(PASSWORD)}}}")
    guard = LiveGuard(path, lambda: now_s[0])
    assert guard.current().auth.needed
    path.write_text("")
    now_s[0] = 2.0
    with caplog.at_level(logging.ERROR):
        assert guard.current().auth.needed
    assert "passwords cannot go while the exporter runs" in caplog.records[0].message


def test_the_files_are_looked_at_once_a_second_at_most_and_by_one_thread(tmp_path: Path) -> None:
    now_s = [0.0]
    path = web_file(tmp_path, "http_server_config: {headers: {X-Frame-Options: deny}}")
    guard = LiveGuard(path, lambda: now_s[0])
    path.write_text("http_server_config: {headers: {X-Frame-Options: sameorigin}}")
    now_s[0] = 0.9
    assert guard.current().headers == (("X-Frame-Options", "deny"),)
    now_s[0] = 1.0
    found = []
    threads = [threading.Thread(target=lambda: found.append(guard.current().headers[0][1])) for _ in range(8)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(5)
    assert set(found) <= {"deny", "sameorigin"} and len(found) == 8
    assert guard.current().headers == (("X-Frame-Options", "sameorigin"),)


@contextmanager
def prometheus(folder: Path, exporter: Exporter, scrape: str) -> Iterator[str]:
    """A real Prometheus that scrapes the exporter once a second; gives its address."""
    config = folder / "prometheus.yml"
    config.write_text(
        "global: {scrape_interval: 1s, scrape_timeout: 1s}\nscrape_configs:\n- job_name: exporter\n"
        f"  static_configs: [{{targets: ['127.0.0.1:{exporter.port}']}}]\n{scrape}"
    )
    port = free_port()
    command = ["prometheus", f"--config.file={config}", f"--storage.tsdb.path={folder / 'tsdb'}"]
    command += [f"--web.listen-address=127.0.0.1:{port}"]
    with (folder / "prometheus.log").open("w") as log:
        process = subprocess.Popen(command, stdout=log, stderr=log)
        try:
            wait_for(f"http://127.0.0.1:{port}/-/ready")
            yield f"http://127.0.0.1:{port}"
        finally:
            process.terminate()
            process.wait(20)


def query(address: str, expression: str) -> list[dict[str, object]]:
    url = f"{address}/api/v1/query?{urllib.parse.urlencode({'query': expression})}"
    with urllib.request.urlopen(url, timeout=5) as answer:
        found = json.load(answer)["data"]["result"]
    assert isinstance(found, list)
    return found


@pytest.mark.pain(13)
def test_prometheus_scrapes_with_tls_a_password_and_a_client_certificate(
    start: StartExporter, authority: Authority, server: Pair, tmp_path: Path
) -> None:
    client = authority.issue("prometheus", "DNS:prometheus", "clientAuth")
    auth = "client_auth_type: RequireAndVerifyClientCert, client_ca_file: ca.pem, client_allowed_sans: [prometheus]"
    text = f"{tls(server, auth)}\nbasic_auth_users: {{prometheus: {hashed(PASSWORD)}}}\n"
    exporter = start(web(tmp_path, text))
    scrape = (
        f"  scheme: https\n  basic_auth: {{username: prometheus, password: '{PASSWORD}'}}\n"
        f"  tls_config: {{ca_file: {authority.cert}, cert_file: {client.cert}, key_file: {client.key}}}\n"
    )
    with prometheus(tmp_path, exporter, scrape) as address:
        end_s = time.monotonic() + 20
        while not (rows := query(address, "gpuminutes_gpu_up == 1")) and time.monotonic() < end_s:
            time.sleep(0.3)
        assert len(rows) == 2, (tmp_path / "prometheus.log").read_text()
        # It asks for OpenMetrics, and keeps the types of the families.
        with urllib.request.urlopen(f"{address}/api/v1/targets/metadata?metric=gpuminutes_gpu_energy_joules") as answer:
            (metadata,) = json.load(answer)["data"]
        assert metadata["type"] == "counter"
        with urllib.request.urlopen(f"{address}/api/v1/targets") as answer:
            (target,) = json.load(answer)["data"]["activeTargets"]
        assert (target["health"], target["lastError"]) == ("up", "")
