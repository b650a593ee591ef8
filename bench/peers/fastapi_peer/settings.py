"""The peer's settings, from the environment."""

from __future__ import annotations

from pydantic import Field, SecretStr
from pydantic_settings import BaseSettings, SettingsConfigDict


class Settings(BaseSettings):
    """`PEER_INDEX` and `PEER_API_KEY` are required; `ELASTICSEARCH_URL` names one node."""

    model_config = SettingsConfigDict(env_prefix="PEER_")

    index: str
    api_key: SecretStr
    elasticsearch_url: str = Field(default="http://127.0.0.1:9200", validation_alias="ELASTICSEARCH_URL")
    connections: int = 64
