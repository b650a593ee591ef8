"""Settings from the environment: read once, refused by name, shown without secrets."""

from dataclasses import dataclass
from pathlib import Path

import pytest

from cluster.connection import ConnectionSettings
from cluster.settings import SettingError, describe_settings, load_settings, setting


@dataclass(frozen=True)
class Example:
    """One setting of each kind."""

    name: str = setting("X_NAME", "unknown", "A text.")
    port: int = setting("X_PORT", 80, "A whole number.")
    seconds: float = setting("X_SECONDS", 1.5, "A number.")
    strict: bool = setting("X_STRICT", default=False, note="A truth value.")
    hosts: tuple[str, ...] = setting("X_HOSTS", (), "Texts.")
    token: str = setting("X_TOKEN", "", "A secret.", secret=True)


def test_without_variables_the_defaults_hold() -> None:
    assert load_settings(Example, {}) == Example("unknown", 80, 1.5, False, (), "")


def test_variables_are_read_by_type() -> None:
    environ = {"X_NAME": "1", "X_PORT": "8080", "X_SECONDS": "2", "X_STRICT": "true", "X_HOSTS": "a", "X_TOKEN": "s3"}
    assert load_settings(Example, environ) == Example("1", 8080, 2.0, True, ("a",), "s3")


@pytest.mark.parametrize(("text", "truth"), [("true", True), ("1", True), ("false", False), ("0", False)])
def test_truth_values_are_true_false_one_and_zero(text: str, truth: bool) -> None:
    assert load_settings(Example, {"X_STRICT": text}).strict is truth


@pytest.mark.parametrize(
    ("text", "hosts"),
    [("a,b", ("a", "b")), (" a , b ", ("a", "b")), ("a,,b,", ("a", "b")), ("", ()), (" , ", ())],
)
def test_several_texts_are_separated_by_commas(text: str, hosts: tuple[str, ...]) -> None:
    assert load_settings(Example, {"X_HOSTS": text}).hosts == hosts


@pytest.mark.parametrize(
    ("variable", "text", "wanted"),
    [
        ("X_PORT", "eighty", "a whole number"),
        ("X_PORT", "", "a whole number"),
        ("X_PORT", "80.5", "a whole number"),
        ("X_SECONDS", "soon", "a number"),
        ("X_STRICT", "yes", "true or false"),
        ("X_STRICT", "2", "true or false"),
    ],
)
def test_an_unusable_value_is_refused_with_the_variable_the_value_and_what_to_use(
    variable: str, text: str, wanted: str
) -> None:
    with pytest.raises(SettingError) as caught:
        load_settings(Example, {variable: text})
    assert str(caught.value) == f"{variable}={text!r} is not valid: use {wanted}."


def test_a_value_may_be_in_a_file(tmp_path: Path) -> None:
    secret = tmp_path / "token"
    secret.write_text("s3cret\n", encoding="utf-8")
    assert load_settings(Example, {"X_TOKEN_FILE": str(secret)}).token == "s3cret"


def test_a_value_in_a_file_is_converted_too(tmp_path: Path) -> None:
    port = tmp_path / "port"
    port.write_text("8443\n", encoding="utf-8")
    assert load_settings(Example, {"X_PORT_FILE": str(port)}).port == 8443


def test_the_variable_itself_counts_before_its_file(tmp_path: Path) -> None:
    assert load_settings(Example, {"X_NAME": "given", "X_NAME_FILE": str(tmp_path / "absent")}).name == "given"


def test_a_file_that_is_not_there_is_refused_with_variable_and_path(tmp_path: Path) -> None:
    with pytest.raises(SettingError, match="X_TOKEN_FILE") as caught:
        load_settings(Example, {"X_TOKEN_FILE": str(tmp_path / "absent")})
    assert str(tmp_path / "absent") in str(caught.value)


def test_a_binary_file_is_refused_naming_the_variable(tmp_path: Path) -> None:
    (tmp_path / "token").write_bytes(b"\xff\xfe\x00")
    with pytest.raises(SettingError, match="X_TOKEN_FILE"):
        load_settings(Example, {"X_TOKEN_FILE": str(tmp_path / "token")})


def test_every_setting_is_described_with_value_and_origin(tmp_path: Path) -> None:
    (tmp_path / "name").write_text("someone", encoding="utf-8")
    environ = {"X_NAME_FILE": str(tmp_path / "name"), "X_HOSTS": "a,b"}
    shown = {line.variable: (line.value, line.origin) for line in describe_settings(Example, environ)}
    assert shown == {
        "X_NAME": ("someone", "file"),
        "X_PORT": ("80", "default"),
        "X_SECONDS": ("1.5", "default"),
        "X_STRICT": ("false", "default"),
        "X_HOSTS": ("a,b", "environment"),
        "X_TOKEN": ("", "default"),
    }
    assert all(line.note for line in describe_settings(Example, environ))


def test_a_secret_is_masked_wherever_it_is_shown() -> None:
    environ = {"X_TOKEN": "canary"}
    assert "canary" not in repr(load_settings(Example, environ))
    assert "canary" not in repr(list(describe_settings(Example, environ)))
    assert [line.value for line in describe_settings(Example, environ) if line.variable == "X_TOKEN"] == ["********"]


def test_the_credentials_of_the_cluster_are_secrets() -> None:
    user = {"BROKERAGE_ELASTICSEARCH_USERNAME": "user", "BROKERAGE_ELASTICSEARCH_PASSWORD": "canary"}
    for environ in ({"BROKERAGE_ELASTICSEARCH_API_KEY": "canary"}, user):
        assert "canary" not in repr(load_settings(ConnectionSettings, environ))
        assert "canary" not in repr(list(describe_settings(ConnectionSettings, environ)))
