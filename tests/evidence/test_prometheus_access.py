"""Credentials from files: real servers that demand them; what is wrong with one is said without the secret."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.detect.server import Signals, started, victoria
from tests.evidence.proxy import proxy
from tests.evidence.test_prometheus_faults import HOUR
from tests.packaging.conftest import ROOT
from warehouse import config
from warehouse.cli import run
from warehouse.errors import BadInput
from warehouse.evidence.access import Access
from warehouse.evidence.prometheus import Failure, PrometheusClient, PrometheusError

SECRET = "s3cr3t-of-the-test"
NO_DATABASE = "postgresql://127.0.0.1:1/none"  # only the line about Prometheus matters here


@pytest.fixture(scope="module")
def guarded(tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    """Gives the address of a gateway that lets only the bearer of the token through to a VictoriaMetrics."""
    folder = tmp_path_factory.mktemp("guarded")
    (folder / "behind").mkdir()
    with victoria(folder / "behind", Signals()) as behind:
        rules = folder / "auth.yml"
        rules.write_text(json.dumps({"users": [{"bearer_token": SECRET, "url_prefix": behind}]}))
        with started(folder, ["vmauth", f"-auth.config={rules}"], "-httpListenAddr=", "/health") as address:
            yield address


@pytest.fixture
def token(tmp_path: Path) -> Path:
    """Gives a file with the right token and the line break that editors add."""
    path = tmp_path / "token"
    path.write_text(SECRET + "\n")
    return path


def test_the_bearer_of_the_token_is_let_in_and_nobody_else(guarded: str, token: Path, tmp_path: Path) -> None:
    with PrometheusClient(guarded, 5, Access(token_file=token)) as client:
        client.ready()
        assert client.names(HOUR) == frozenset()
    headers = tmp_path / "headers"
    headers.write_text(f"# of the gateway\n\nAuthorization: Bearer {SECRET}\n")
    with PrometheusClient(guarded, 5, Access(headers_file=headers)) as client:
        client.ready()
    token.write_text("wrong")
    for access in (Access(), Access(token)):
        with PrometheusClient(guarded, 5, access) as client, pytest.raises(PrometheusError) as caught:
            client.ready()
        assert caught.value.kind is Failure.REFUSED and client.traffic().retries == 0


def test_name_and_password_in_the_address(tmp_path: Path) -> None:
    options = ["-httpAuth.username=me", f"-httpAuth.password={SECRET}"]
    with started(
        tmp_path,
        ["victoria-metrics", f"-storageDataPath={tmp_path / 'data'}", *options],
        "-httpListenAddr=",
        "/health",
    ) as address:
        inside = address.replace("//", f"//me:{SECRET}@")
        with PrometheusClient(inside, 5) as client:
            client.ready()
        with (
            PrometheusClient(inside.replace(SECRET, SECRET + "x"), 5) as client,
            pytest.raises(PrometheusError) as caught,
        ):
            client.ready()
    assert caught.value.kind is Failure.REFUSED and SECRET not in str(caught.value)


def test_a_tenant_is_named_with_every_question(prometheus_address: str, tmp_path: Path) -> None:
    headers = tmp_path / "headers"
    headers.write_text("X-Scope-OrgID: gpu-fleet\r\nx-note:  two words \n")
    with proxy(prometheus_address) as before, PrometheusClient(before.address, 5, Access(None, headers)) as client:
        client.ready()
        client.names(HOUR)
        client.samples("steady", HOUR)
    assert [headers["x-scope-orgid"] for _, headers in before.seen] == ["gpu-fleet"] * 3
    assert before.seen[0][1]["x-note"] == "two words"


def test_the_environment_says_where_the_files_are(
    guarded: str, token: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setenv("GPU_MINUTES_DATABASE_URL", NO_DATABASE)
    monkeypatch.setenv("GPU_MINUTES_PROMETHEUS_URL", guarded)

    def prometheus() -> str:
        run(["doctor", "--format", "json"])
        found = json.loads(capsys.readouterr().out)["findings"]
        return next(str(finding["result"]) for finding in found if finding["what"] == "Prometheus")

    assert prometheus() == "WRONG"
    monkeypatch.setenv("GPU_MINUTES_PROMETHEUS_TOKEN_FILE", str(token))
    assert config.load().prometheus_token_file == token
    assert prometheus() == "ok"
    monkeypatch.setenv("GPU_MINUTES_PROMETHEUS_TOKEN_FILE", "")
    assert prometheus() == "WRONG"
    headers = tmp_path / "headers"
    headers.write_text(f"authorization: Bearer {SECRET}")
    monkeypatch.setenv("GPU_MINUTES_PROMETHEUS_HEADERS_FILE", str(headers))
    assert prometheus() == "ok"
    headers.write_text("no header")
    assert run(["doctor"]) == 2
    assert capsys.readouterr().err == f"gpu-minutes: {headers} line 1: is no header; write it as Name: value\n"


@pytest.mark.parametrize(
    ("text", "reason"),
    [
        ("", "is not one token in one line"),
        (f"{SECRET}\n{SECRET}", "is not one token in one line"),
        (f"Bearer {SECRET}", "is not one token in one line"),
        (f"{SECRET}é", "is not one token in one line"),
        (f"{SECRET}\x00", "is not one token in one line"),
    ],
)
def test_a_token_that_is_none_is_named_and_not_shown(tmp_path: Path, text: str, reason: str) -> None:
    path = tmp_path / "token"
    path.write_text(text)
    with pytest.raises(BadInput, match=reason) as caught:
        PrometheusClient("http://127.0.0.1:1", 1, Access(token_file=path))
    assert str(path) in str(caught.value) and SECRET not in str(caught.value)


@pytest.mark.parametrize(
    ("text", "reason"),
    [
        (f"X-A: 1\nAuthorization {SECRET}", "line 2: is no header"),
        (f"X-A: {SECRET}\x01", "line 1: is no header"),
        (f"X A: {SECRET}", "line 1: is no header"),
        ("X-A:", "line 1: is no header"),
        (f"X-A: 1\nx-a: {SECRET}", "line 2: names a header for the second time"),
    ],
)
def test_a_header_that_is_none_is_named_and_not_shown(tmp_path: Path, text: str, reason: str) -> None:
    path = tmp_path / "headers"
    path.write_text(text)
    with pytest.raises(BadInput, match=reason) as caught:
        PrometheusClient("http://127.0.0.1:1", 1, Access(headers_file=path))
    assert str(path) in str(caught.value) and SECRET not in str(caught.value)


def test_two_credentials_are_one_too_many(tmp_path: Path, token: Path) -> None:
    headers = tmp_path / "headers"
    headers.write_text(f"Authorization: Basic {SECRET}")
    for address, access in (
        ("http://127.0.0.1:1", Access(token, headers)),
        (f"http://me:{SECRET}@127.0.0.1:1", Access(token)),
        (f"http://me:{SECRET}@127.0.0.1:1", Access(None, headers)),
    ):
        with pytest.raises(BadInput, match="keep one") as caught:
            PrometheusClient(address, 1, access)
        assert SECRET not in str(caught.value)


def test_files_that_cannot_be_read_are_one_clear_line(tmp_path: Path) -> None:
    odd = tmp_path / "odd"
    odd.write_bytes(b"\xff\xfe")
    for path, reason in ((tmp_path / "none", "No such file"), (tmp_path, "Is a directory"), (odd, "is not UTF-8")):
        for access in (Access(token_file=path), Access(headers_file=path)):
            with pytest.raises(BadInput, match=reason):
                PrometheusClient("http://127.0.0.1:1", 1, access)


def test_the_page_names_every_variable_and_no_other() -> None:
    named = re.compile(r"GPU_MINUTES_PROMETHEUS_[A-Z_]+")
    source = Path(config.__file__).read_text()
    assert set(named.findall((ROOT / "docs/prometheus.md").read_text())) == set(named.findall(source))
