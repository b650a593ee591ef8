"""The text of a key: minted, read back, refused at the first wrong character, never shown by accident."""

import hashlib
import re

import pytest
from hypothesis import assume, given
from hypothesis import strategies as st

from service.keys.api_key import KeyText, generate_key, parse_key

BASE62 = "0123456789abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ"
KEYS = st.builds(
    KeyText,
    st.text("0123456789abcdefghijklmnopqrstuvwxyz", min_size=10, max_size=10),
    st.text(BASE62, min_size=30, max_size=30),
)


@given(KEYS)
def test_a_revealed_key_is_read_back(key: KeyText) -> None:
    assert parse_key(key.reveal()) == key


def test_a_minted_key_is_read_back_and_has_the_published_form() -> None:
    key = generate_key()
    assert parse_key(key.reveal()) == key
    assert re.fullmatch(r"bk_[a-z0-9]{10}_[A-Za-z0-9]{36}", key.reveal())


def test_no_two_minted_keys_share_id_or_secret() -> None:
    minted = [generate_key() for _ in range(50)]
    assert len({key.key_id for key in minted}) == len({key.secret for key in minted}) == 50


@given(KEYS, st.integers(0, 49), st.sampled_from(BASE62 + "_- \n٣"))
def test_any_single_changed_character_is_refused(key: KeyText, place: int, character: str) -> None:
    text = key.reveal()
    assume(text[place] != character)
    assert parse_key(text[:place] + character + text[place + 1 :]) is None


@given(KEYS, st.integers(0, 48))
def test_two_neighbours_in_the_wrong_order_are_refused(key: KeyText, place: int) -> None:
    text = key.reveal()
    swapped = text[:place] + text[place + 1] + text[place] + text[place + 2 :]
    assume(swapped != text)
    assert parse_key(swapped) is None


@given(KEYS, st.integers(0, 49))
def test_a_lost_character_is_refused(key: KeyText, place: int) -> None:
    text = key.reveal()
    assert parse_key(text[:place] + text[place + 1 :]) is None


@pytest.mark.parametrize("around", ["{}\n", " {}", "{} ", "\x00{}", "{}x", "Bearer {}", "ApiKey {}"])
def test_a_key_with_anything_round_it_is_refused(around: str) -> None:
    assert parse_key(around.format(generate_key().reveal())) is None


@given(st.text(max_size=60))
def test_arbitrary_text_is_not_a_key(text: str) -> None:
    assert parse_key(text) is None


def test_the_secret_is_stored_as_its_digest_only() -> None:
    key = generate_key()
    assert key.digest == hashlib.sha256(key.secret.encode()).hexdigest()


def test_a_representation_hides_the_secret() -> None:
    key = generate_key()
    assert key.secret not in repr(key)
    assert key.secret not in f"{key} {[key]!r}"
    assert key.key_id in repr(key)
