"""What holds for all tests.

No test fails for taking long: whoever shares the machine would decide which ones do. And none
depends on who started it: a shell in the background, or ``nohup``, has signals ignored, and
children would ignore them as well.
"""

import signal
from typing import Any

from hypothesis import HealthCheck, settings

settings.register_profile("untimed", deadline=None, suppress_health_check=[HealthCheck.too_slow])
settings.load_profile("untimed")

for number, usual in (
    (signal.SIGINT, signal.default_int_handler),
    (signal.SIGQUIT, signal.SIG_DFL),
    (signal.SIGHUP, signal.SIG_DFL),
):
    if signal.getsignal(number) is signal.SIG_IGN:
        signal.signal(number, usual)


def pytest_terminal_summary(terminalreporter: Any) -> None:
    """Print what tests have counted, which they record as properties named ``told``."""
    for report in terminalreporter.getreports("passed"):
        for name, value in report.user_properties:
            if name == "told":
                terminalreporter.write_line(value)
