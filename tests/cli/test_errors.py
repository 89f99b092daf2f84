"""Expected errors are one clear message on stderr and an exit status; nothing else is swallowed."""

import errno

import pytest
from botocore.exceptions import ClientError, EndpointConnectionError, TokenRetrievalError
from botocore.parsers import ResponseParserError

from cdclake.cli.errors import explain, explain_file
from cdclake.errors import BadRowError, CdclakeError, ConfigurationError, RetryableError

NOWHERE = "http://127.0.0.1:1"


def client_error(code):
    return ClientError({"Error": {"Code": code, "Message": "no"}}, "GetItem")


def test_an_endpoint_that_does_not_answer_is_named_with_what_to_do(cdclake):
    result = cdclake("tables", "--endpoint-url", NOWHERE)
    assert result.exit_code == ConfigurationError.exit_code
    assert result.stdout == ""
    assert "The AWS endpoint does not answer" in result.stderr
    assert NOWHERE in result.stderr
    assert "cdclake local serve" in result.stderr
    assert "Traceback" not in result.stderr


def test_the_endpoint_of_the_environment_counts(cdclake):
    result = cdclake("run", AWS_ENDPOINT_URL=NOWHERE)
    assert result.exit_code == ConfigurationError.exit_code
    assert NOWHERE in result.stderr


def test_missing_credentials_are_told(cdclake):
    result = cdclake("plan", AWS_ACCESS_KEY_ID="", AWS_SECRET_ACCESS_KEY="")
    assert result.exit_code == ConfigurationError.exit_code
    assert "No AWS credentials" in result.stderr
    assert "--profile" in result.stderr


def test_a_missing_region_is_told(cdclake, monkeypatch):
    monkeypatch.delenv("AWS_DEFAULT_REGION")
    result = cdclake("tables")
    assert result.exit_code == ConfigurationError.exit_code
    assert "--region" in result.stderr


def test_an_unknown_profile_is_told(cdclake):
    result = cdclake("tables", "--profile", "nobody")
    assert result.exit_code == ConfigurationError.exit_code
    assert "nobody" in result.stderr


@pytest.mark.parametrize("endpoint", ["localhost:5555", "http://", "ftp://host"])
def test_an_endpoint_that_is_no_url_is_told(cdclake, endpoint):
    for result in (cdclake("tables", "--endpoint-url", endpoint), cdclake("plan", AWS_ENDPOINT_URL=endpoint)):
        assert result.exit_code == ConfigurationError.exit_code
        assert f"'{endpoint}' is not the URL of an endpoint" in result.stderr


@pytest.mark.parametrize(
    ("arguments", "words"),
    [(("tables", "--region", "eu west"), "eu west"), (("plan", "--raw-bucket", "my bucket"), "my bucket")],
)
def test_a_region_or_bucket_that_cannot_be_one_is_told(cdclake, state, arguments, words):
    result = cdclake(*arguments)
    assert result.exit_code == ConfigurationError.exit_code
    assert words in result.stderr


@pytest.mark.parametrize(
    ("verb", "told"),
    [
        ("local feed", "Error: The folder {folder} cannot be created: Not a directory"),
        ("local sample", "Error: A file or folder cannot be used: Not a directory"),
    ],
)
def test_a_folder_that_cannot_be_made_is_told(cdclake, tmp_path, verb, told):
    (tmp_path / "file").touch()
    folder = tmp_path / "file" / "folder"
    result = cdclake(*verb.split(), str(folder))
    assert result.exit_code == ConfigurationError.exit_code
    assert result.stderr.startswith(told.format(folder=folder))
    assert str(folder) in result.stderr


def test_a_full_disk_is_told_and_other_errors_of_the_system_are_not_explained():
    assert "No space left" in str(explain_file(OSError(errno.ENOSPC, "No space left on device")))
    assert explain_file(BrokenPipeError(errno.EPIPE, "Broken pipe")) is None


def test_an_answer_that_is_none_of_awss_is_told():
    shown = explain(ResponseParserError("Unable to parse response, invalid XML received: b'<!doctype html>'"))
    assert isinstance(shown, ConfigurationError)
    assert "--endpoint-url" in str(shown)


@pytest.mark.parametrize("code", ["ExpiredToken", "ExpiredTokenException"])
def test_expired_credentials_are_told_even_below_an_adapters_error(code):
    error = CdclakeError("AWS answered")
    error.__cause__ = client_error(code)
    for shown in (explain(error), explain(client_error(code))):
        assert isinstance(shown, ConfigurationError)
        assert "expired" in str(shown)


def test_a_lapsed_login_is_told():
    shown = explain(TokenRetrievalError(provider="sso", error_msg="Token has expired"))
    assert isinstance(shown, ConfigurationError)
    assert "Log in again" in str(shown)


def test_our_own_errors_keep_their_message_and_exit_status():
    error = BadRowError("Op is 'X'", remedy="Correct the raw file", row=7)
    assert explain(error) is error


def test_a_known_cause_that_is_not_awss_does_not_hide_the_error():
    error = RetryableError("AWS did not answer")
    error.__cause__ = ValueError("other")
    assert explain(error) is error


def test_other_answers_of_aws_are_shown_as_they_are():
    assert "AWS answered Throttled to GetItem: no" in str(explain(client_error("Throttled")))


def test_what_nobody_expected_is_not_explained():
    assert explain(ValueError("defect")) is None


def test_no_answer_below_an_adapters_error_names_the_endpoint():
    error = RetryableError("AWS did not answer")
    error.__cause__ = EndpointConnectionError(endpoint_url=NOWHERE, error="refused")
    assert NOWHERE in str(explain(error))
