"""One stage of the work a file, with the pydantic spec of that stage beside it."""
