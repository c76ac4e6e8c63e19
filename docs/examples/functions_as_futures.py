"""A DAG of Python functions, written as plain calls: a future passed on is a dependency.

Functions run in processes of their own, small ones many at a time. Nothing here waits but
`result()`.
"""

from dataward import Executor

TEXT = "a rose is a rose is a rose\nand a daisy is a daisy\n"


def count(line: str) -> dict[str, int]:
    return {word: line.split().count(word) for word in line.split()}


def merge(counts: list[dict[str, int]]) -> dict[str, int]:
    words = sorted({word for one in counts for word in one})
    return {word: sum(one.get(word, 0) for one in counts) for word in words}


with Executor(slots=2) as executor:
    counts = [executor.submit(count, line) for line in TEXT.splitlines()]
    words = executor.submit(merge, counts)
    most = executor.submit(lambda counts: max(counts, key=counts.get), words)

    print(words.result())
    print("most often:", most.result())

    # An error is the caller's, and that of all who depend on it.
    broken = executor.submit(int, "seven")
    doubled = executor.submit(lambda number: 2 * number, broken)
    print("error:", doubled.exception())

    print("squares:", list(executor.map(pow, range(6), [2] * 6)))
