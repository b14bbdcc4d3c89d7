"""The file of --web.config.file: what of the toolkit's format is honoured, and that nothing else is passed over."""

from __future__ import annotations

import re
import ssl
from pathlib import Path

import pytest

from exporter.errors import ConfigError
from exporter.web.config import CIPHERS, Rate, Tls, read_web_config
from exporter.web.limit import Bucket

# Of the form of a hash; nobody logs in with it here.
HASH = "$2y$04$k8SmLW0WcbFJYSNsgZRAnuA5OFBHx3zTGTRyMN0HKiqiSvkYfY9nq"


def written(folder: Path, text: str) -> Path:
    path = folder / "web.yml"
    path.write_text(text)
    return path


def problems(folder: Path, text: str) -> list[str]:
    """What is wrong with a file, without its name."""
    path = written(folder, text)
    with pytest.raises(ConfigError) as raised:
        read_web_config(path)
    lines = str(raised.value).splitlines()
    assert all(line.startswith(f"{path}: ") for line in lines)
    return [line.removeprefix(f"{path}: ") for line in lines]


def test_every_key_of_the_format(tmp_path: Path) -> None:
    config = read_web_config(
        written(
            tmp_path,
            f"""
            tls_server_config:
              cert_file: server.pem
              key_file: /keys/server.key
              client_auth_type: RequireAndVerifyClientCert
              client_ca_file: ca.pem
              client_allowed_sans: [prometheus.example, 10.0.0.1]
              min_version: TLS12
              max_version: TLS12
              cipher_suites: [TLS_ECDHE_RSA_WITH_AES_128_GCM_SHA256, TLS_AES_128_GCM_SHA256]
              prefer_server_cipher_suites: false
              curve_preferences: [CurveP384]
            http_server_config:
              http2: true
              headers:
                X-Frame-Options: deny
                Content-Security-Policy: default-src 'self'
                X-XSS-Protection:
            basic_auth_users:
              prometheus: {HASH}
              007: {HASH}
            rate_limit:
              interval: 1m0.5s
              burst: 3
            """,
        )
    )
    assert config.tls == Tls(
        tmp_path / "server.pem",
        Path("/keys/server.key"),
        tmp_path / "ca.pem",
        "RequireAndVerifyClientCert",
        frozenset({"prometheus.example", "10.0.0.1"}),
        "TLS12",
        "TLS12",
        ("ECDHE-RSA-AES128-GCM-SHA256",),
        False,
        "secp384r1",
    )
    assert config.tls.files == (tmp_path / "server.pem", Path("/keys/server.key"), tmp_path / "ca.pem")
    assert config.headers == (("X-Frame-Options", "deny"), ("Content-Security-Policy", "default-src 'self'"))
    assert config.users == (("prometheus", HASH), ("007", HASH))
    assert config.rate == Rate(60.5, 3)
    assert [re.sub(r".*?: ", "", note, count=1) for note in config.notes] == [
        "tls_server_config.cipher_suites: every suite of TLS 1.3 is offered, whichever are named",
        "http2: HTTP/1.1 is served; clients agree on it by themselves",
    ]


@pytest.mark.parametrize("text", ["", "tls_server_config:\n", "{}", "basic_auth_users: {}\nhttp_server_config:\n"])
def test_an_empty_file_asks_for_nothing(text: str, tmp_path: Path) -> None:
    config = read_web_config(written(tmp_path, text))
    assert (config.tls, config.users, config.headers, config.rate, config.notes) == (None, (), (), None, ())


CERT = "cert_file: a, key_file: b"


@pytest.mark.parametrize(
    ("text", "found"),
    [
        ("tls_server_confg: {}", ["tls_server_confg: there is no such key; did you mean tls_server_config?"]),
        (
            f"tls_server_config: {{{CERT}, cert_fil: c}}",
            ["tls_server_config.cert_fil: there is no such key; did you mean cert_file?"],
        ),
        (
            "tls_server_config: {min_version: TLS13}",
            [
                "tls_server_config.cert_file: is missing: TLS needs a certificate and its key",
                "tls_server_config.key_file: is missing: TLS needs a certificate and its key",
            ],
        ),
        (f"tls_server_config: {{{CERT}, cert: x}}", ["tls_server_config.cert_file: stands beside cert; keep one"]),
        *(
            (
                f"tls_server_config: {{{CERT}, client_auth_type: {auth}, client_ca_file: c}}",
                [
                    f"tls_server_config.client_auth_type: {auth} trusts certificates unverified, which cannot be done "
                    "here; RequireAndVerifyClientCert can"
                ],
            )
            for auth in ("RequestClientCert", "RequireAnyClientCert", "RequireClientCert")
        ),
        (
            f"tls_server_config: {{{CERT}, client_auth_type: RequireAndVerify, client_ca: c}}",
            [
                "tls_server_config.client_auth_type: 'RequireAndVerify' is not known; "
                "did you mean RequireAndVerifyClientCert?"
            ],
        ),
        (
            f"tls_server_config: {{{CERT}, client_auth_type: VerifyClientCertIfGiven}}",
            [
                "tls_server_config.client_auth_type: VerifyClientCertIfGiven needs client_ca_file, the authority that "
                "signs client certificates"
            ],
        ),
        (
            f"tls_server_config: {{{CERT}, client_ca_file: c}}",
            [
                "tls_server_config.client_ca_file: is of no use with NoClientCert; "
                "set client_auth_type: RequireAndVerifyClientCert"
            ],
        ),
        (
            f"tls_server_config: {{{CERT}, client_allowed_sans: [a]}}",
            ["tls_server_config.client_allowed_sans: needs client_auth_type: RequireAndVerifyClientCert"],
        ),
        (
            f"tls_server_config: {{{CERT}, min_version: TLS10}}",
            ["tls_server_config.min_version: TLS10 is withdrawn (RFC 8996) and not served; use TLS12 or TLS13"],
        ),
        (
            f"tls_server_config: {{{CERT}, min_version: TLS13, max_version: TLS12}}",
            ["tls_server_config.min_version: is above max_version"],
        ),
        (
            f"tls_server_config: {{{CERT}, max_version: '1.3'}}",
            ["tls_server_config.max_version: '1.3' is not known; there are TLS12, TLS13"],
        ),
        (
            f"tls_server_config: {{{CERT}, cipher_suites: [TLS_RSA_WITH_RC4_128_SHA]}}",
            [
                "tls_server_config.cipher_suites: 'TLS_RSA_WITH_RC4_128_SHA' is not known; "
                "did you mean TLS_ECDHE_RSA_WITH_AES_128_CBC_SHA?"
            ],
        ),
        (
            f"tls_server_config: {{{CERT}, curve_preferences: [CurveP256, X25519]}}",
            ["tls_server_config.curve_preferences: only one can be set here; name one, or leave it out for all"],
        ),
        (
            f"tls_server_config: {{{CERT}, prefer_server_cipher_suites: yes}}",
            ["tls_server_config.prefer_server_cipher_suites: 'yes' is neither true nor false"],
        ),
        (
            "http_server_config: {headers: {X-Powered-By: us, X-Frame-Options: never}}",
            [
                "http_server_config.headers.X-Frame-Options: 'never' is none of deny, sameorigin",
                "http_server_config.headers.X-Powered-By: there is no such key; there are "
                "Content-Security-Policy, Strict-Transport-Security, X-Content-Type-Options, X-Frame-Options, "
                "X-XSS-Protection",
            ],
        ),
        (
            'http_server_config: {headers: {Content-Security-Policy: "a\\nSet-Cookie: b"}}',
            ["http_server_config.headers.Content-Security-Policy: holds a letter that a header cannot"],
        ),
        ("basic_auth_users: [a]", ["basic_auth_users: must be a mapping of names to values"]),
        (
            "basic_auth_users: {a: hunter2}",
            ["basic_auth_users.a: the password is not a bcrypt hash; make one: htpasswd -nBC 10 USER"],
        ),
        (f"basic_auth_users: {{'a:b': {HASH}}}", ["basic_auth_users.a:b: a user name is not empty and has no colon"]),
        ("rate_limit: {interval: 1x}", ["rate_limit.interval: '1x' is not a duration like 100ms, 1s or 1m30s"]),
        (
            "rate_limit: {interval: 1s}",
            ["rate_limit.burst: must be 1 or more, or every request would be refused"],
        ),
        ("rate_limit: {interval: 1s, burst: many}", ["rate_limit.burst: 'many' is not a whole number"]),
        ("a: 1\na: 2", ["line 1: a key stands twice in this mapping"]),
        ("a: [1", ["line 1: expected ',' or ']', but got '<stream end>'"]),
        ("- a", ["is no mapping of names to values"]),
        ("a: \x07", ["holds a letter that YAML does not allow"]),
    ],
)
def test_what_cannot_be_honoured_is_told_by_key_and_reason(text: str, found: list[str], tmp_path: Path) -> None:
    assert problems(tmp_path, text) == found


def test_no_message_quotes_a_secret(tmp_path: Path) -> None:
    secret = "hunter2hunter2"
    for text in (
        f"basic_auth_users: {{a: {secret}}}",
        f"basic_auth_users: {{a: [{secret}]}}",
        f"basic_auth_users: {secret}",
        f"basic_auth_users:\n  a: {secret}\n b: {secret}",
        f"tls_server_config: {{key: [{secret}]}}",
        f"tls_server_config: {{key: {{x: {secret}}}}}",
    ):
        assert not [line for line in problems(tmp_path, text) if secret in line], text


def test_every_cipher_is_one_that_openssl_has() -> None:
    for name in CIPHERS.values():
        context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
        context.set_ciphers(name)
        assert name in {cipher["name"] for cipher in context.get_ciphers()}


def test_a_bucket_gives_what_it_holds_and_fills_with_time() -> None:
    bucket = Bucket(Rate(2.0, 2))
    assert [bucket.take(now_s) for now_s in (0.0, 0.0, 0.0, 1.9, 2.0, 2.0)] == [True, True, False, False, True, False]
    assert [bucket.take(100.0) for _ in range(3)] == [True, True, False]
    assert all(Bucket(None).take(0.0) for _ in range(100))
