"""The thread in which an executor's dispatcher runs, and the methods other threads may call."""

import asyncio
import threading
import traceback
import weakref
from collections import deque
from concurrent.futures import BrokenExecutor
from contextlib import ExitStack, suppress
from pathlib import Path
from typing import Any

from dataward.calls.arguments import PendingCall
from dataward.calls.directory import CallDirectory
from dataward.calls.dispatcher import CallSettings, Dispatcher
from dataward.calls.future import CallFuture
from dataward.kernel.realtime import AsyncioKernel
from dataward.live.standard_streams import open_standard_streams

AFTER_EXIT = "cannot schedule new futures after interpreter shutdown"


class CallLoop:
    def __init__(self, settings: CallSettings, directory: Path | None) -> None:
        self._settings = settings
        open_standard_streams()
        self._directory: CallDirectory | None = CallDirectory(directory)
        self._inbox: deque[PendingCall] = deque()
        self._cancelled: deque[CallFuture[Any]] = deque()
        self._is_woken = False
        self._is_finishing = False
        self._cancels = False
        self._started = threading.Event()
        self._failure: BaseException | None = None
        self._loop: asyncio.AbstractEventLoop | None = None
        self._dispatcher: Dispatcher | None = None
        self._thread = threading.Thread(target=self._run, name="dataward", daemon=True)

    # --- from other threads ----------------------------------------------------------------------

    def start(self) -> None:
        """Start the thread. Raises the error if it cannot start.

        Raises RuntimeError once the interpreter is ending: then no more threads can be started.
        """
        if _is_exiting:
            raise RuntimeError(AFTER_EXIT)
        self._thread.start()
        self._started.wait()
        if self._failure is not None:
            raise self._failure
        _running.add(self)

    def add(self, call: PendingCall) -> None:
        """Have a call made. Raises BrokenExecutor if the thread has failed.

        Raises RuntimeError once the interpreter is ending.
        """
        if _is_exiting:
            raise RuntimeError(AFTER_EXIT)
        if self._failure is None:
            self._inbox.append(call)
        # Perhaps it failed just now. Its thread tells the futures of all calls that it had taken:
        # the caller has the executor's lock, which their callbacks may want.
        if self._failure is not None:
            raise _broken(self._failure)
        self._wake()

    def on_cancelled(self, future: CallFuture[Any]) -> None:
        self._cancelled.append(future)
        self._wake()

    def finish(self, *, cancel: bool) -> None:
        """End when all calls are made; with ``cancel``, when those under way are."""
        self._cancels = self._cancels or cancel
        self._is_finishing = True
        self._is_woken = False
        self._wake()

    def join(self) -> None:
        if threading.current_thread() is not self._thread:  # a future's callback would be in it
            self._thread.join()

    def _wake(self) -> None:
        if not self._is_woken:
            self._is_woken = True
            dispatcher = self._dispatcher
            if dispatcher is not None:
                self._call_soon(dispatcher.work.set)

    def _call_soon(self, work: Any) -> None:
        loop = self._loop
        if loop is not None:
            with suppress(RuntimeError):  # the loop has ended
                loop.call_soon_threadsafe(work)

    # --- the thread ------------------------------------------------------------------------------

    def _run(self) -> None:
        try:
            kernel = AsyncioKernel()
            with ExitStack() as stack:
                kernel.run(self._main(kernel, stack))
        except BaseException as error:
            # The frames would keep the directory until the executor itself is gone.
            traceback.clear_frames(error.__traceback__)
            self._failure = error
            self._break_off(error)
        finally:
            # Keep no reference, so that the directory is removed with the last result.
            self._dispatcher = self._directory = None
            self._started.set()

    async def _main(self, kernel: AsyncioKernel, stack: ExitStack) -> None:
        assert self._directory is not None
        self._loop = asyncio.get_running_loop()
        self._directory.make()
        dispatcher = Dispatcher(kernel, self._settings, self._directory)
        stack.callback(dispatcher.close)
        self._dispatcher = dispatcher
        try:
            await dispatcher.start()
            self._started.set()
            while not self._is_done(dispatcher):
                await dispatcher.work.wait()
                dispatcher.work.clear()
                self._is_woken = False
                self._hand_over(dispatcher)
                await dispatcher.send()
            await dispatcher.finish()
        finally:
            await dispatcher.stop()

    def _hand_over(self, dispatcher: Dispatcher) -> None:
        while self._inbox:
            dispatcher.take_in(self._inbox.popleft())
        if self._cancels:
            dispatcher.cancel_all()
        while self._cancelled:
            dispatcher.on_cancelled(self._cancelled.popleft())

    def _is_done(self, dispatcher: Dispatcher) -> bool:
        if not self._is_finishing or self._inbox or self._cancelled:
            return False
        if not dispatcher.is_idle:
            return False
        return self._cancels or not dispatcher.make_lost_again()

    def _break_off(self, failure: BaseException) -> None:
        """Make no more calls: the futures of all unfinished ones get an error."""
        error = _broken(failure)
        while self._inbox:
            call = self._inbox.popleft()
            if call.future.start():
                call.future.set_exception(error)
        if self._dispatcher is not None:
            self._dispatcher.break_off(error)


def _broken(failure: BaseException) -> BrokenExecutor:
    error = BrokenExecutor(f"the executor has broken down: {failure}")
    error.__cause__ = failure
    return error


# --- the end of the interpreter ------------------------------------------------------------------

_running: "weakref.WeakSet[CallLoop]" = weakref.WeakSet()
_is_exiting = False


def _finish_all() -> None:
    """Make the calls that are left and take no more, as the standard library's executors do."""
    global _is_exiting
    _is_exiting = True
    loops = list(_running)
    for loop in loops:
        loop.finish(cancel=False)
    for loop in loops:
        loop.join()


# A session needs threads, and none can be started once `atexit` runs. These callbacks run last in,
# first out: this one before that of `concurrent.futures.thread`, which `session` has imported.
threading._register_atexit(_finish_all)  # type: ignore[attr-defined]
