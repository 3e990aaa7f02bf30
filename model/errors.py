"""The exceptions that a user can act on; the command prints their message as one sentence."""

import re
from collections.abc import Sequence
from reprlib import Repr

LONGEST = 300  # characters of a message, whatever its input
_VALUE, _CHOICES = 40, 150  # characters of a value that is quoted, of valid choices
_MOST_SENTENCES = 100  # of one error, more than a person reads
_LOGIN = re.compile(r"(\w+://)[^\s]*@")  # user and password: everything before the last @


_SHORT = Repr()
_SHORT.maxlevel, _SHORT.maxlong, _SHORT.maxother, _SHORT.maxstring = 3, _VALUE, _VALUE, _VALUE


class McvrpError(Exception):
    """Invalid input or environment: the message names the file, row or field.

    Exit codes of the command, whoever raises the error:

    ====  ==============================================================================
    0     done
    1     partly done, or a server does not answer: `IncompleteError`, `ClusterLost`
    2     invalid input or environment: `McvrpError`, unexpected errors
    130   interrupted: Ctrl-C or SIGTERM
    ====  ==============================================================================
    """

    exit_code = 2
    sentences: Sequence[str] = ()  # lines of the terminal, if they are not the message


class InvalidFields(McvrpError):
    """Invalid fields or misplaced files, with one sentence for each of them."""

    def __init__(self, sentences: Sequence[str]) -> None:
        if (left := len(sentences) - _MOST_SENTENCES) > 0:
            sentences = [*sentences[:_MOST_SENTENCES], f"and {left:,} more: correct these first"]
        super().__init__("\n".join(sentences))
        self.sentences = tuple(sentences)


class IncompleteError(McvrpError):
    """Partly completed work; the message names what is missing."""

    exit_code = 1


def reason(error: BaseException) -> str:
    """Return the first line of the message of ``error``, or its class name if the message is empty."""
    text = str(getattr(error, "strerror", None) or error).strip()
    return (text.splitlines() or [type(error).__name__])[0]


def shown(value: object, most: int = _VALUE) -> str:
    """Return ``value`` in quotes if it is text, in at most ``most`` characters; control characters as codes.

    Messages quote all user input through this function, as it may be a name of 5,000 letters.
    """
    if isinstance(value, str):
        return repr(value if len(value) <= most else f"{value[: most - 3]}...")
    text = _SHORT.repr(value)
    return text if len(text) <= most else f"{text[: most - 3]}..."


def brief(text: str, most: int = LONGEST) -> str:
    """Return ``text`` in at most ``most`` printable characters, shortened in the middle."""
    text = printable(text)
    if len(text) <= most:
        return text
    end = (most - 3) // 3  # the remedy is at the end
    return f"{text[: most - 3 - end]}...{text[-end:]}"


def printable(text: str) -> str:
    """Return ``text`` with control characters escaped, as a terminal would interpret them."""
    return text if text.isprintable() else "".join(c if c.isprintable() else repr(c)[1:-1] for c in text)


def enumerated(texts: Sequence[str], separator: str, most: int, *, at_least: bool = False) -> str:
    """Return as many of ``texts`` as fit in ``most`` characters, at least one: "a, b and 3 more".

    The count is a lower bound with ``at_least``.
    """
    before = ("" if separator == ", " else separator.strip()) + " and " + ("at least " if at_least else "")
    for count in range(min(len(texts), most), 0, -1):
        left = len(texts) - count
        end = f"{before}{left:,} more" if left else ""
        line = separator.join(texts[:count]) + end
        if len(line) <= most:
            return line
    return brief(texts[0], most - len(end)) + end


def alternatives(name: str, names: Sequence[str]) -> str:
    """Return the existing ``names`` for the unknown ``name``: " (there are: lyon, paris)", "" without any."""
    others = [each for each in names if each != name]  # its folder may be all that is left of it
    return f" (there are: {enumerated(others, ', ', _CHOICES)})" if others else ""


def without_logins(text: str) -> str:
    """Return ``text`` without the part between :// and @ of its addresses, which may be a password."""
    return _LOGIN.sub(r"\1…@", text)


def sentence(error: BaseException) -> str:
    """Return the message of ``error`` on a single line, without Ray's wrapper around our errors."""
    cause = getattr(error, "cause", None)
    return printable(" ".join(str(cause if isinstance(cause, McvrpError) else error).split()))
