"""Where our Prefect server keeps its records: SQLite in the user's folder, or a Postgres database."""

from __future__ import annotations

import asyncio
from urllib.parse import urlsplit

from model.errors import McvrpError, reason

_ANSWER_SECONDS = 5.0
_DRIVER = "postgresql+asyncpg"


def database_environment(url: str | None) -> dict[str, str]:
    """Return what tells a server to use the database at ``url``; nothing for None.

    Parameters
    ----------
    url
        "postgresql://user:password@host:5432/name", with or without "+asyncpg".

    Raises
    ------
    McvrpError
        If it is no such address, or the database does not let us in.
    """
    if url is None:
        return {}
    kind, _, place = url.partition("://")
    if kind not in (_DRIVER, "postgresql", "postgres") or not urlsplit(url).path.strip("/"):
        raise McvrpError("--database takes an address such as postgresql://user:password@host:5432/name")
    asyncio.run(_try(f"postgresql://{place}"))
    whole = f"{_DRIVER}://{place}"
    names = ("PREFECT_SERVER_DATABASE_CONNECTION_URL", "PREFECT_API_DATABASE_CONNECTION_URL")
    return dict.fromkeys(names, whole)


async def _try(url: str) -> None:
    import asyncpg

    try:
        connection = await asyncpg.connect(url, timeout=_ANSWER_SECONDS)
    except (OSError, asyncpg.PostgresError, asyncpg.InterfaceError, ValueError, TimeoutError) as error:
        host = urlsplit(url).hostname or "here"  # never the address: it holds the password
        raise McvrpError(f"the database on {host} does not let the server in: {reason(error)}") from None
    await connection.close()
