"""Errors for people: what went wrong, where, and what to do now."""


class FusioncError(Exception):
    """An error that ends the command with one readable block instead of a traceback.

    `code` is ATC's error code where ATC has one for the situation (E10001 a wrong value, E10410 a missing file, …).
    `what` says what is wrong, `where` names the file, option or node, `hint` says what to do now.
    """

    exit_code = 1

    def __init__(self, what: str, *, where: str = "", hint: str = "", code: str = "E19999") -> None:
        super().__init__(what)
        self.what, self.where, self.hint, self.code = what, where, hint, code
        self.log_file: object = None  # where there is more about it

    def __str__(self) -> str:
        lines = [f"{self.code}: {self.what}"]
        if self.where:
            lines.append(f"  where: {self.where}")
        if self.hint:
            lines.append(f"  to do: {self.hint}")
        return "\n".join(lines)


class Terminated(SystemExit):
    """Somebody asked the command to end: a signal, not code that calls sys.exit."""


class UsageError(FusioncError):
    """An option, a switch or a switch file that cannot be understood. Exit code 2."""

    exit_code = 2


class VerificationError(FusioncError):
    """The result does not compute what the original computes; nothing was written. Exit code 3."""

    exit_code = 3
