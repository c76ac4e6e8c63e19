"""``dataward.Executor``: makes calls on this machine or, given an access file, on a cluster."""

from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import Any

from dataward.calls.executor import CallExecutor
from dataward.errors import SettingError
from dataward.model.events import Emit


class ExecutorAnywhere(CallExecutor):
    """Makes calls in other processes, several at a time.

    ``slots`` says how many at a time (default: as many as there are cores) on each of ``nodes``;
    ``max_workers`` is the standard library's name for it. Each process calls ``initializer`` with
    ``initargs`` before its first call; if that raises an error, the executor is broken. Functions
    of a module see the globals that an initializer of that module sets, unless they are sent by
    value, as those of the script itself are: each of these has globals of its own.

    All files are kept in ``directory``, which must be new or empty, or else in a temporary
    directory that is removed when no result can be asked for any more. A call that runs longer
    than ``time_limit_seconds`` is ended with its process. ``on_event`` is called with every event,
    in the executor's own thread.

    A future may be an argument of a later call, also within lists, dictionaries and objects: the
    later call gets the future's result. If the earlier call failed, the later one fails with the
    same error; if it was cancelled, the later one is cancelled.

    A result is there as soon as its call has been made. Small calls share a process, one after
    another; a call that turns out slow holds up no other as long as a slot is free. No call is made
    twice: a call whose process dies fails with ProcessDiedError (TimeLimitError, which is also a
    TimeoutError, if it ran too long), and no other call fails with it.

    With ``access``, a file for those who submit to a cluster, calls are made by its nodes, which
    need the same version of Python and the modules that functions import. ``slots`` is then how
    many at a time in all (default: all that the nodes have), shared fairly with other runs. What a
    call prints goes to its node's log. Large results stay at the node that made them until they
    are needed elsewhere. If a node is gone, calls without a result are made again on others, and
    so is the call of a large result that it alone had, when somebody asks for the result or a call
    needs it. If that cannot be done, they raise ValueLostError: the call raises an error now, its
    arguments are no longer kept here (256 MB of all arguments are), or it was lost too often.
    """

    def __init__(
        self,
        slots: int | None = None,
        *,
        access: str | Path | None = None,
        nodes: int | None = None,
        directory: str | Path | None = None,
        time_limit_seconds: float = 0.0,
        on_event: Emit | None = None,
        max_workers: int | None = None,
        initializer: Callable[..., object] | None = None,
        initargs: tuple[Any, ...] = (),
    ) -> None:
        make_lender = None
        if access is not None:
            if nodes is not None or on_event is not None:
                raise SettingError("nodes and on_event are for calls on this machine: no access")
            # Imported here: whoever makes calls on this machine needs no network.
            try:
                from dataward.cluster.access import ROLES, contacts_for, read_access
                from dataward.cluster.borrowing import ClusterLender, ClusterSettings
                from dataward.live.credentials import Role
            except ImportError as error:
                raise SettingError(
                    f"clusters need more than is installed here ({error.name} is missing): "
                    "pip install 'dataward[cluster]'"
                ) from error

            read = read_access(Path(access))
            if ROLES[read.role] is not Role.SUBMIT:
                raise SettingError(f"with {access} nobody may make calls; this takes submit.access")
            slots_max = slots or max_workers or 0
            make_lender = partial(
                ClusterLender,
                ClusterSettings(
                    read, contacts_for(Path(access), read), slots_max, time_limit_seconds
                ),
            )
        super().__init__(
            slots,
            nodes=1 if nodes is None else nodes,
            directory=directory,
            time_limit_seconds=time_limit_seconds,
            on_event=on_event,
            max_workers=max_workers,
            initializer=initializer,
            initargs=initargs,
            make_lender=make_lender,
        )
