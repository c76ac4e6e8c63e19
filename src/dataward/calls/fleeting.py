"""Large results that may be lost with a node, and what it takes to make them again.

A recipe keeps a call's function and arguments, not the values that the call needed: those may go
when nobody refers to them any more, and are made again too if need be.
"""

from abc import abstractmethod
from weakref import ref

from dataward.calls.functions import Function
from dataward.calls.future import FutureOwner, StoredResult

RECIPE_BYTES = 600  # that the recipe itself takes
KEPT_BYTES_MAX = 256 << 20  # of all arguments that an executor keeps for calls that were made


class FleetingResult(StoredResult):
    """A result that is gone with the nodes that have it, unless its call is made again."""

    __slots__ = ("recipe",)

    def __init__(self) -> None:
        self.recipe: CallRecipe | None = None

    @property
    @abstractmethod
    def may_come_back(self) -> bool:
        """Whether the result is lost, and its call may be made again."""

    @abstractmethod
    def give_up(self, why: BaseException) -> None:
        """The result will not be made again. In the executor's own thread."""


class KeptArguments:
    """Counts the bytes of all recipes."""

    def __init__(self, bytes_max: int = KEPT_BYTES_MAX) -> None:
        self.bytes = 0
        self.bytes_max = bytes_max

    @property
    def is_full(self) -> bool:
        return self.bytes >= self.bytes_max


class Ingredient:
    """A result that a call needed, as far as it is known without keeping a large one."""

    __slots__ = ("_value", "number", "recipe", "small")

    def __init__(self, number: int, kept: bytes | StoredResult) -> None:
        self.number = number
        self.small = kept if isinstance(kept, bytes) else None
        self._value: ref[StoredResult] | None = None
        self.recipe: CallRecipe | None = None
        if isinstance(kept, StoredResult):
            self._value = ref(kept)
            self.recipe = kept.recipe if isinstance(kept, FleetingResult) else None

    @property
    def value(self) -> StoredResult | None:
        """The large result, if somebody still refers to it."""
        return self._value() if self._value is not None else None


class CallRecipe:
    """A call that has been made, as it would be made again; its arguments count as kept."""

    __slots__ = (
        "_kept",
        "_size_bytes",
        "arguments",
        "function",
        "needs",
        "number",
        "owner",
        "tries",
    )

    def __init__(
        self,
        number: int,
        function: Function,
        arguments: bytes,
        needs: tuple[Ingredient, ...],
        owner: FutureOwner,
        kept: KeptArguments,
    ) -> None:
        self.number = number
        self.function = function
        self.arguments = arguments
        self.needs = needs
        self.owner = owner
        self.tries = 0  # how often the call was made again
        self._kept = kept
        small = sum(len(need.small or b"") for need in needs)
        self._size_bytes = RECIPE_BYTES + len(arguments) + small
        kept.bytes += self._size_bytes

    def __del__(self) -> None:
        self._kept.bytes -= self._size_bytes
