"""``dataward run --dry-run``: says what would run, why, and for how long."""

from dataward.api.run import RunToDo
from dataward.cli.complaints import visible
from dataward.cli.forecast_line import forecast_as_json, show_forecast_of_run
from dataward.cli.output import counted, print_json, stdout_console
from dataward.model.quantities import show_seconds
from dataward.runs.forecast import Forecast, foresee
from dataward.runs.preparation import Preparer
from dataward.runs.run_options import RunOptions

SHOWN = 20  # tasks; --json has them all


def show_forecast(todo: RunToDo, *, json: bool) -> None:
    options = todo.options
    preparer = Preparer(
        todo.workflow,
        todo.source,
        todo.directory,
        keep_all=options.keep.everything,
        request=options.request,
    )
    for _ in preparer.look_at_inputs():
        pass
    forecast = foresee(todo.workflow, preparer, todo.directory, options.machine)
    if json:
        print_json(
            {
                "tasks": len(todo.workflow),
                "due": forecast.due,
                "perhaps": forecast.perhaps,
                "skipped": forecast.skipped,
                "seconds_min": forecast.seconds_min,
                "seconds_max": forecast.seconds_max,
                "untimed": forecast.untimed,
                "forecast": forecast_as_json(forecast.end),
                "answer": todo.answer.as_json() if todo.answer is not None else None,
            }
        )
    else:
        _print(forecast, options)
        if todo.answer is not None:
            stdout_console().print(visible(todo.answer.sentence), soft_wrap=True)


def _print(forecast: Forecast, options: RunOptions) -> None:
    console = stdout_console()

    def say(sentence: str) -> None:
        console.print(sentence, soft_wrap=True)

    for task, why in list(forecast.due.items())[:SHOWN]:
        say(f"{visible(task)} would run, because {visible(why)}")
    if len(forecast.due) > SHOWN:
        say(f"... and {counted(len(forecast.due) - SHOWN, 'task')} more (--json has them all)")
    for task in forecast.perhaps[:SHOWN]:
        say(f"{visible(task)} would run if what it reads turns out different, or needed and gone")
    if len(forecast.perhaps) > SHOWN:
        say(f"... and perhaps {counted(len(forecast.perhaps) - SHOWN, 'task')} more")
    perhaps = f", {len(forecast.perhaps):,} perhaps" if forecast.perhaps else ""
    skipped = f", {forecast.skipped:,} skipped" if forecast.skipped else ""
    say(f"{counted(len(forecast.due), 'task')} would run{perhaps}{skipped}")
    if forecast.due or forecast.perhaps:
        say(_how_long(forecast, options.machine.nodes * options.machine.slots))
        if forecast.end is None:
            say("too little is known of run times to say when it would end")
        else:
            say(f"it should take {show_forecast_of_run(forecast.end)}")


def _how_long(forecast: Forecast, cores: int) -> str:
    low, high = show_seconds(forecast.seconds_min), show_seconds(forecast.seconds_max)
    span = low if low == high else f"{low} to {high}"
    unknown = f"; of {counted(forecast.untimed, 'task')} no time is known"
    on = counted(cores, "slot")
    return f"that takes at least {span} on {on}{unknown if forecast.untimed else ''}"
