"""The digests of simulated files."""


def digest_of(task: str, file: str) -> str:
    """The digest of a simulated task's output: from task and file, so every run writes the same."""
    return f"{task}/{file}"
