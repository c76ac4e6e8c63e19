"""dataward with one sync left out, to see whether anybody misses it."""

import os
from collections.abc import Callable
from pathlib import Path

from dataward.live import depot_disk
from dataward.live.durability import sync_path
from dataward.live.sandbox import put_in_depot
from dataward.runs import run_directory, workflow_run
from dataward.runs.housekeeping import publish_known
from dataward.runs.publishing import Publisher
from dataward.stores import journal


def _nothing(*arguments: object) -> None:
    pass


def of_the_journal() -> None:
    journal._sync = _nothing


def of_a_new_journal() -> None:
    class Os:
        """The system without its sync."""

        fsync = staticmethod(_nothing)

        def __getattr__(self, name: str) -> object:
            return getattr(os, name)

    journal.os = Os()


def of_small_outputs() -> None:
    depot_disk.sync_files = _nothing


def of_names_in_the_depot() -> None:
    depot_disk._sync_all = lambda paths, directory: depot_disk.sync_files(paths)


def of_large_outputs() -> None:
    def name_only(path: str, depot: str) -> tuple[str, str]:
        with open(path, "rb", buffering=0) as file:
            digest = depot_disk.file_digest(file, os.fstat(file.fileno()).st_size)
        place = put_in_depot(path, depot, digest, os.path.basename(path))
        sync_path(os.path.dirname(place))
        return digest, place

    depot_disk._sync_and_name = name_only


def of_results() -> None:
    Publisher.sync = _nothing


def of_results_of_a_killed_run() -> None:
    class Unsynced(Publisher):
        sync = _nothing

    def publish_only(prepared: object, is_wanted: object, publisher: Publisher) -> None:
        publish_known(prepared, is_wanted, Unsynced(publisher.outputs, publisher.drafts))

    workflow_run.publish_known = publish_only


def of_the_run_directory() -> None:
    run_directory.make_directory = lambda path: path.mkdir(parents=True, exist_ok=True)
    run_directory.sync_path = _nothing


def of_the_facts() -> None:
    def write_and_rename(path: Path, content: bytes) -> None:
        draft = path.with_name(path.name + ".new")
        draft.write_bytes(content)
        draft.replace(path)

    run_directory.replace_content = write_and_rename


LEFT_OUT: dict[str, Callable[[], None]] = {
    work.__name__: work
    for work in (
        of_the_journal,
        of_a_new_journal,
        of_small_outputs,
        of_names_in_the_depot,
        of_large_outputs,
        of_results,
        of_results_of_a_killed_run,
        of_the_run_directory,
        of_the_facts,
    )
}
