"""Tags: what AWS refuses is refused before."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from cdclake.errors import ConfigurationError
from cdclake_infra.settings import Settings
from cdclake_infra.tags import MOST_TAGS, read_tags
from tests.examples import examples

KEYS = st.text("abcXYZ019äß_.:/+-@ ", min_size=1, max_size=20).map(str.strip).filter(bool)
VALUES = st.text("abcXYZ019äß_.:/=+-@ ", min_size=1, max_size=20).map(str.strip).filter(bool)


def test_tags_are_a_mapping_or_a_list():
    tags = (("CostCenter", "4711"), ("Owner", "data"))
    assert Settings.from_context({"cdclake:tags": {"CostCenter": 4711, "Owner": "data"}}).tags == tags
    assert Settings.from_context({"cdclake:tags": "CostCenter=4711, Owner=data"}).tags == tags
    assert Settings.from_context({"cdclake:tags": ""}).tags == ()


@examples(thorough=5000, ci=500, test=100, quick=20)
@given(st.dictionaries(KEYS, VALUES, max_size=5))
def test_both_forms_say_the_same(tags: dict[str, str]):
    try:
        found = read_tags(tags)
    except ValueError:
        with pytest.raises(ValueError, match=r"keys "):
            read_tags(_text(tags))
    else:
        assert read_tags(_text(tags)) == found == tuple(tags.items())


def _text(tags: dict[str, str]) -> str:
    return ",".join(f"{key}={value}" for key, value in tags.items())


@pytest.mark.parametrize(
    ("tags", "meaning"),
    [
        ("Owner", "'Owner' has no ="),
        ("=data", "keys of 1 to 128"),
        (["Owner=data"], "a mapping, or Key=Value"),
        ({"Owner": True}, "the value of Owner: write it in quotes"),
        ({"Owner": None}, "the value of Owner: write it in quotes"),
        ({"k" * 129: ""}, "keys of 1 to 128"),
        ({"Owner": "v" * 257}, "values of 1 to 256"),
        ("Owner=", "values of 1 to 256"),
        ({"Owner": "a,b"}, "letters, digits, spaces"),
        ({"Owner*": "a"}, "letters, digits, spaces"),
        ({"Owner": "a\nb"}, "letters, digits, spaces"),
        ({"AWS:owner": "a"}, "do not begin with aws:"),
        ("Owner=a,Owner=b", "upper and lower case"),
        ({"Owner": "a", "owner": "b"}, "upper and lower case"),
        ({f"key{number}": "" for number in range(MOST_TAGS + 1)}, f"at most {MOST_TAGS} tags, not {MOST_TAGS + 1}"),
    ],
)
def test_what_aws_would_refuse_is_refused(tags: object, meaning: str):
    with pytest.raises(ConfigurationError, match="The setting cdclake:tags is ") as refused:
        Settings.from_context({"cdclake:tags": tags})
    assert meaning in str(refused.value)


def test_the_longest_tag_is_accepted():
    assert read_tags({"k" * 128: "v" * 256}) == (("k" * 128, "v" * 256),)
