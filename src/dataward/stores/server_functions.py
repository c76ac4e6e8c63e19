"""Functions in Lua that a server keeps and applies, each call without any other in between."""

from collections.abc import Mapping
from hashlib import blake2b
from typing import Any

from valkey.exceptions import ResponseError

from dataward.errors import SettingError
from dataward.stores.connection import Connection


class ServerFunctions:
    """A library of functions, given to a server when it turns out not to have them.

    Their names contain a digest of the code, so that a server may have those of several versions at
    once, and a caller gets those that it knows. ``functions`` has, for each function, its options
    as `redis.register_function` takes them.
    """

    def __init__(self, name: str, rules: str, functions: Mapping[str, str]) -> None:
        self.name = f"{name}_{blake2b(rules.encode(), digest_size=6).hexdigest()}"
        registered = (
            f"redis.register_function{{function_name='{self.name}_{function}', {options}}}"
            for function, options in functions.items()
        )
        self.code = "\n".join([f"#!lua name={self.name}", rules, *registered])

    async def call(
        self, connection: Connection, function: str, key: str, *arguments: str | bytes | int
    ) -> Any:
        """What the function returns, at the server that has the key."""
        words = ("FCALL", f"{self.name}_{function}", 1, key, *arguments)
        try:
            return await connection.send(key, *words)
        except ResponseError as error:
            said = str(error).lower()
            if "unknown command" in said:
                raise SettingError("the store's server is too old: Redis 7 or any Valkey") from None
            if "function not found" not in said:
                raise
        await self._load(connection, key)
        return await connection.send(key, *words)

    async def _load(self, connection: Connection, key: str) -> None:
        """Give the functions to the server that has the key; its replicas get them from it."""
        try:
            await connection.send(key, "FUNCTION", "LOAD", self.code)
        except ResponseError as error:
            if "already exists" not in str(error):  # somebody else was faster
                raise
