"""Settings of S3 for obstore: the same endpoint, region and keys as s3fs takes, or none."""

from __future__ import annotations

import os
from pathlib import Path
from typing import Any

import pytest

from dataformats.storage.remote.s3_settings import fits_obstore, settings_of
from dataformats.testing.loop_over import loop_over

KEYS = {"key": "a", "secret": "b"}


@pytest.fixture(autouse=True)
def environment(monkeypatch: pytest.MonkeyPatch) -> pytest.MonkeyPatch:
    """No variable of AWS, and no file of it."""
    for name in [name for name in os.environ if name.startswith("AWS_")]:
        monkeypatch.delenv(name)
    for name in ("AWS_CONFIG_FILE", "AWS_SHARED_CREDENTIALS_FILE"):
        monkeypatch.setenv(name, "/none")
    return monkeypatch


def given(options: dict[str, Any]) -> tuple[Any, Any, Any]:
    """Return endpoint, region and credentials."""
    found = settings_of(options)
    assert found is not None
    config, provider = found["config"], found.get("credential_provider")
    keys = provider and provider()
    named = keys and (keys["access_key_id"], keys["secret_access_key"], keys["token"])
    return config.get("aws_endpoint_url_s3"), config.get("region"), named


@loop_over(
    "url", ["s3://bucket/a.tfrecord", "s3a://my.bucket/dir/*.ffr", "s3://bucket", "s3://bucket/", "s3://b1-x/a b#?c"]
)
def test_urls_of_objects(url: str) -> None:
    assert fits_obstore(url, {})


@loop_over(
    "url",
    [
        "gs://bucket/a",
        "simplecache::s3://bucket/a",
        "s3://bucket/a?versionId=1",
        "s3://arn:aws:s3:us-east-1:1:accesspoint/a/b",
        "s3://point-1234-s3alias/a",
        "s3://bucket--use1-az4--x-s3/a",
        "s3:///a",
    ],
)
def test_urls_of_other_things(url: str) -> None:
    assert not fits_obstore(url, {})


@loop_over(
    "options, fits",
    [
        (KEYS, True),
        ({**KEYS, "token": "c", "endpoint_url": "http://h"}, True),
        (
            {"anon": True, "profile": "p", "client_kwargs": {"region_name": "eu-west-1", "endpoint_url": "http://h"}},
            True,
        ),
        ({"key": "a"}, False),
        ({"token": "c"}, False),
        ({"config_kwargs": {}}, False),
        ({"requester_pays": True}, False),
        ({"client_kwargs": {"verify": False}}, False),
    ],
)
def test_options_of_s3fs_alone(options: dict[str, Any], fits: bool) -> None:
    assert fits_obstore("s3://bucket/a", options) == fits


def test_options_win_over_variables(environment: pytest.MonkeyPatch) -> None:
    assert given(KEYS) == (None, None, ("a", "b", None))
    environment.setenv("AWS_ACCESS_KEY_ID", "c")
    environment.setenv("AWS_SECRET_ACCESS_KEY", "d")
    environment.setenv("AWS_SESSION_TOKEN", "e")
    environment.setenv("AWS_DEFAULT_REGION", "eu-west-1")
    environment.setenv("AWS_ENDPOINT_URL", "http://one")
    assert given({}) == ("http://one", "eu-west-1", ("c", "d", "e"))
    environment.setenv("AWS_ENDPOINT_URL_S3", "http://two")
    assert given(KEYS) == ("http://two", "eu-west-1", ("a", "b", None))
    client = {"region_name": "us-west-2", "endpoint_url": "http://four"}
    assert given({"anon": True, "client_kwargs": client}) == ("http://four", "us-west-2", None)
    assert given({"endpoint_url": "http://three", "token": "f", **KEYS})[::2] == ("http://three", ("a", "b", "f"))


def test_settings_of_s3fs_alone(environment: pytest.MonkeyPatch) -> None:
    environment.setenv("AWS_USE_FIPS_ENDPOINT", "true")
    assert settings_of(KEYS) is None
    environment.delenv("AWS_USE_FIPS_ENDPOINT")
    environment.setenv("AWS_ENDPOINT", "http://h")  # obstore reads it, s3fs does not
    assert settings_of(KEYS) is None
    assert given({"endpoint_url": "http://i", **KEYS})[0] == "http://i"


def test_plain_and_encrypted_connections(environment: pytest.MonkeyPatch, tmp_path: Path) -> None:
    bundle = tmp_path / "bundle.pem"
    bundle.write_bytes(b"pem")
    environment.setenv("AWS_CA_BUNDLE", str(bundle))
    for url, root in (("http://h", None), ("https://h", b"pem"), (None, b"pem")):
        found = settings_of({**KEYS, "endpoint_url": url})
        assert found is not None
        client = found["client_options"]
        assert (client.get("allow_http", False), client.get("root_certificate")) == (url == "http://h", root)


def test_files_of_profiles(environment: pytest.MonkeyPatch, tmp_path: Path) -> None:
    pytest.importorskip("botocore", reason="the extra s3 is not installed")
    (tmp_path / "config").write_text(
        "[default]\nregion = eu-north-1\n[profile other]\nregion = eu-south-1\n[profile dual]\ns3 =\n  payload = x\n"
    )
    (tmp_path / "keys").write_text(
        "[default]\naws_access_key_id = a\naws_secret_access_key = b\n"
        "[other]\naws_access_key_id = c\naws_secret_access_key = d\naws_session_token = e\n"
    )
    environment.setenv("AWS_CONFIG_FILE", str(tmp_path / "config"))
    environment.setenv("AWS_SHARED_CREDENTIALS_FILE", str(tmp_path / "keys"))
    environment.setenv("AWS_EC2_METADATA_DISABLED", "true")
    assert given({}) == (None, "eu-north-1", ("a", "b", None))
    assert given({"profile": "other"}) == (None, "eu-south-1", ("c", "d", "e"))
    environment.setenv("AWS_PROFILE", "other")
    assert given({})[1:] == ("eu-south-1", ("c", "d", "e"))
    assert given({"key": "x", "secret": "y"})[1:] == ("eu-south-1", ("x", "y", None))
    assert settings_of({"profile": "dual"}) is None  # settings that obstore lacks
    assert settings_of({"profile": "missing"}) is None
    environment.setenv("AWS_PROFILE", "dual")
    assert settings_of({}) is None
    environment.delenv("AWS_PROFILE")
    environment.setenv("AWS_SHARED_CREDENTIALS_FILE", "/none")
    assert settings_of({}) is None  # no credentials


def test_anonymous_access_looks_for_no_credentials(environment: pytest.MonkeyPatch) -> None:
    environment.setenv("AWS_EC2_METADATA_SERVICE_ENDPOINT", "http://127.0.0.1:9")
    assert given({"anon": True}) == (None, None, None)


def test_a_missing_bundle_is_left_to_s3fs(environment: pytest.MonkeyPatch) -> None:
    environment.setenv("AWS_CA_BUNDLE", "/none")
    assert settings_of(KEYS) is None


@loop_over("endpoint", ["nonsense", "host:9000", "http://", "http://host:port", "ftp://host"])
def test_s3fs_reports_invalid_endpoints(endpoint: str) -> None:
    assert settings_of({**KEYS, "endpoint_url": endpoint}) is None
