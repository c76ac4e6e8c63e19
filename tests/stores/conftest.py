"""Servers that stores run on."""

from valkey_fixtures import redis_server, valkey_cluster, valkey_server

__all__ = ["redis_server", "valkey_cluster", "valkey_server"]
