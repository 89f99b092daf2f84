"""Expected errors become one message on stderr and an exit status; unexpected ones are raised."""

import errno
import os

import pytest
from botocore.exceptions import ClientError, EndpointConnectionError, TokenRetrievalError
from botocore.parsers import ResponseParserError

from cdclake.errors import BadRowError, CdclakeError, ConfigurationError, DiskFullError, RetryableError
from cdclake_cli.errors import explain, explain_file

NOWHERE = "http://127.0.0.1:1"


def client_error(code):
    return ClientError({"Error": {"Code": code, "Message": "no"}}, "GetItem")


@pytest.mark.slow
def test_an_unreachable_endpoint_is_an_error_with_a_remedy(cdclake):
    result = cdclake("tables", "--endpoint-url", NOWHERE)
    assert result.exit_code == ConfigurationError.exit_code
    assert result.stdout == ""
    assert "The AWS endpoint does not respond" in result.stderr
    assert NOWHERE in result.stderr
    assert "cdclake local serve" in result.stderr
    assert "Traceback" not in result.stderr


@pytest.mark.slow
def test_the_endpoint_can_come_from_the_environment(cdclake):
    result = cdclake("run", AWS_ENDPOINT_URL=NOWHERE)
    assert result.exit_code == ConfigurationError.exit_code
    assert NOWHERE in result.stderr


def test_missing_credentials_are_an_error(cdclake):
    result = cdclake("plan", AWS_ACCESS_KEY_ID="", AWS_SECRET_ACCESS_KEY="")
    assert result.exit_code == ConfigurationError.exit_code
    assert "No AWS credentials" in result.stderr
    assert "--profile" in result.stderr


def test_a_missing_region_is_an_error(cdclake, monkeypatch):
    monkeypatch.delenv("AWS_DEFAULT_REGION")
    result = cdclake("tables")
    assert result.exit_code == ConfigurationError.exit_code
    assert "--region" in result.stderr


def test_an_unknown_profile_is_an_error(cdclake):
    result = cdclake("tables", "--profile", "nobody")
    assert result.exit_code == ConfigurationError.exit_code
    assert "nobody" in result.stderr


@pytest.mark.parametrize("endpoint", ["localhost:5555", "http://", "ftp://host"])
def test_an_endpoint_that_is_not_a_url_is_an_error(cdclake, endpoint):
    for result in (cdclake("tables", "--endpoint-url", endpoint), cdclake("plan", AWS_ENDPOINT_URL=endpoint)):
        assert result.exit_code == ConfigurationError.exit_code
        assert f"'{endpoint}' is not the URL of an endpoint" in result.stderr


@pytest.mark.parametrize(
    ("arguments", "words"),
    [(("tables", "--region", "eu west"), "eu west"), (("plan", "--raw-bucket", "my bucket"), "my bucket")],
)
def test_an_invalid_region_or_bucket_name_is_an_error(cdclake, state, arguments, words):
    result = cdclake(*arguments)
    assert result.exit_code == ConfigurationError.exit_code
    assert words in result.stderr


@pytest.mark.parametrize("verb", ["feed", "sample"])
def test_a_folder_that_cannot_be_created_is_an_error(cdclake, tmp_path, verb):
    (tmp_path / "file").touch()
    folder = tmp_path / "file" / "folder"
    result = cdclake("local", verb, str(folder))
    assert result.exit_code == ConfigurationError.exit_code
    assert result.stderr.startswith("Error: A file or folder cannot be used: Not a directory")
    assert str(folder) in result.stderr


def test_a_full_disk_is_explained_and_other_system_errors_are_not():
    for number in (errno.ENOSPC, errno.EDQUOT):
        full = explain_file(OSError(number, "text of a library"))
        assert isinstance(full, DiskFullError)
        assert os.strerror(number) in str(full)
        assert "TMPDIR names another temporary folder" in full.remedy
    assert explain_file(BrokenPipeError(errno.EPIPE, "Broken pipe")) is None


def test_an_endpoint_that_is_not_aws_is_an_error():
    shown = explain(ResponseParserError("Unable to parse response, invalid XML received: b'<!doctype html>'"))
    assert isinstance(shown, ConfigurationError)
    assert "--endpoint-url" in str(shown)


@pytest.mark.parametrize("code", ["ExpiredToken", "ExpiredTokenException"])
def test_expired_credentials_are_explained_even_as_the_cause_of_an_adapters_error(code):
    error = CdclakeError("AWS answered")
    error.__cause__ = client_error(code)
    for shown in (explain(error), explain(client_error(code))):
        assert isinstance(shown, ConfigurationError)
        assert "expired" in str(shown)


def test_an_expired_login_is_an_error():
    shown = explain(TokenRetrievalError(provider="sso", error_msg="Token has expired"))
    assert isinstance(shown, ConfigurationError)
    assert "Log in again" in str(shown)


def test_own_errors_keep_their_message_and_exit_status():
    error = BadRowError("Op is 'X'", remedy="Correct the raw file", row=7)
    assert explain(error) is error


def test_a_cause_that_is_not_from_aws_does_not_hide_the_error():
    error = RetryableError("AWS did not answer")
    error.__cause__ = ValueError("other")
    assert explain(error) is error


def test_other_aws_errors_are_shown_unchanged():
    assert "AWS answered Throttled to GetItem: no" in str(explain(client_error("Throttled")))


def test_unexpected_errors_are_not_explained():
    assert explain(ValueError("defect")) is None


def test_an_adapters_error_without_an_answer_names_the_endpoint():
    error = RetryableError("AWS did not answer")
    error.__cause__ = EndpointConnectionError(endpoint_url=NOWHERE, error="refused")
    assert NOWHERE in str(explain(error))
