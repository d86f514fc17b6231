"""When an event that repeats is logged: at the 1st, 10th, 100th, ... time."""


def logged(count: int) -> bool:
    """Return whether the `count`-th occurrence of an event gets a line in the log: if it is a power of ten.

    >>> [count for count in range(1_001) if logged(count)]
    [1, 10, 100, 1000]
    """
    return str(count).strip("0") == "1"
