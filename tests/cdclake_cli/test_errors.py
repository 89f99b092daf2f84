"""Expected errors become one message on stderr and an exit status; unexpected ones are raised."""

import errno
import os

import pytest
from botocore.exceptions import ClientError, EndpointConnectionError, TokenRetrievalError
from botocore.parsers import ResponseParserError

from cdclake.errors import BadRowError, CdclakeError, ConfigurationError, DiskFullError, RetryableError
from cdclake_cli.errors import explain, explain_file

NOWHERE = "http://127.0.0.1:1"
KEYS = {"AWS_ACCESS_KEY_ID": "any", "AWS_SECRET_ACCESS_KEY": "any"}


def client_error(code):
    return ClientError({"Error": {"Code": code, "Message": "no"}}, "GetItem")


@pytest.mark.slow
@pytest.mark.parametrize(
    ("arguments", "environment"),
    [
        (("tables", "--endpoint-url", NOWHERE), {}),
        (("changes", "list", "shop.store"), {**KEYS, "AWS_ENDPOINT_URL": NOWHERE}),
    ],
    ids=["state table", "lake bucket"],
)
def test_an_unreachable_endpoint_is_an_error_with_a_remedy(cdclake, arguments, environment):
    error = cdclake.refused(*arguments, **environment)
    assert "The AWS endpoint does not respond" in error
    assert NOWHERE in error
    assert "cdclake local serve" in error


def test_missing_credentials_are_an_error(cdclake):
    error = cdclake.refused("plan", **dict.fromkeys(KEYS, ""))
    assert "No AWS credentials" in error
    assert "--profile" in error


def test_a_missing_region_is_an_error(cdclake, monkeypatch):
    monkeypatch.delenv("AWS_DEFAULT_REGION")
    assert "--region" in cdclake.refused("tables")


def test_an_unknown_profile_is_an_error(cdclake):
    assert "nobody" in cdclake.refused("tables", "--profile", "nobody")


@pytest.mark.parametrize("endpoint", ["localhost:5555", "http://", "ftp://host"])
def test_an_endpoint_that_is_not_a_url_is_an_error(cdclake, endpoint):
    message = f"'{endpoint}' is not the URL of an endpoint"
    assert message in cdclake.refused("tables", "--endpoint-url", endpoint)
    assert message in cdclake.refused("plan", AWS_ENDPOINT_URL=endpoint)


@pytest.mark.parametrize(
    ("arguments", "words"),
    [(("tables", "--region", "eu west"), "eu west"), (("plan", "--raw-bucket", "my bucket"), "my bucket")],
)
def test_an_invalid_region_or_bucket_name_is_an_error(cdclake, state, arguments, words):
    assert words in cdclake.refused(*arguments)


@pytest.mark.parametrize("verb", ["feed", "sample"])
def test_a_folder_that_cannot_be_created_is_an_error(cdclake, tmp_path, verb):
    (tmp_path / "file").touch()
    folder = tmp_path / "file" / "folder"
    error = cdclake.refused("local", verb, str(folder))
    assert error.startswith("Error: A file or folder cannot be used: Not a directory")
    assert str(folder) in error


def test_a_full_disk_is_explained_and_other_system_errors_are_not():
    for number in (errno.ENOSPC, errno.EDQUOT):
        full = explain_file(OSError(number, "text of a library"))
        assert isinstance(full, DiskFullError)
        assert os.strerror(number) in str(full)
        assert "TMPDIR names another temporary folder" in full.remedy
    assert explain_file(BrokenPipeError(errno.EPIPE, "Broken pipe")) is None


@pytest.mark.parametrize("code", ["ExpiredToken", "ExpiredTokenException"])
def test_expired_credentials_are_explained_even_as_the_cause_of_an_adapters_error(code):
    error = CdclakeError("AWS answered")
    error.__cause__ = client_error(code)
    for shown in (explain(error), explain(client_error(code))):
        assert isinstance(shown, ConfigurationError)
        assert "expired" in str(shown)


@pytest.mark.parametrize(
    ("error", "remedy"),
    [
        (ResponseParserError("invalid XML received: b'<!doctype html>'"), "--endpoint-url"),
        (TokenRetrievalError(provider="sso", error_msg="Token has expired"), "Log in again"),
    ],
    ids=["an endpoint that is not AWS", "an expired login"],
)
def test_errors_of_botocore_have_a_remedy(error, remedy):
    shown = explain(error)
    assert isinstance(shown, ConfigurationError)
    assert remedy in str(shown)


@pytest.mark.parametrize("cause", [None, ValueError("other")])
def test_own_errors_stay_as_they_are_unless_aws_is_their_cause(cause):
    error = BadRowError("Op is 'X'", remedy="Correct the raw file", row=7)
    error.__cause__ = cause
    assert explain(error) is error


def test_other_aws_errors_are_shown_unchanged():
    assert "AWS answered Throttled to GetItem: no" in str(explain(client_error("Throttled")))


def test_unexpected_errors_are_not_explained():
    assert explain(ValueError("defect")) is None


def test_an_adapters_error_without_an_answer_names_the_endpoint():
    error = RetryableError("AWS did not answer")
    error.__cause__ = EndpointConnectionError(endpoint_url=NOWHERE, error="refused")
    assert NOWHERE in str(explain(error))
