"""Temporary folders: those of killed processes are removed, those in use stay."""

from __future__ import annotations

import errno
import os
import signal
import subprocess
import sys
import time
from pathlib import Path
from unittest.mock import Mock

import pytest

from mcvrp.tasks.support.scratch import scratch_folder, sweep_scratch

OLD = time.time() - 30 * 24 * 3600


@pytest.fixture(autouse=True)
def temporary(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A folder for temporary files before the first sweep."""
    monkeypatch.setattr("tempfile.tempdir", str(tmp_path))
    sweep_scratch.cache_clear()
    return tmp_path


def aged(place: Path) -> Path:
    os.utime(place, (OLD, OLD))
    return place


def test_what_a_killed_process_has_left_goes_at_the_next_start(temporary: Path) -> None:
    """A folder whose maker is dead is removed with all that is in it; that of one who lives stays."""
    code = (
        "import os, sys, time; from mcvrp.tasks.support.scratch import scratch_folder\n"
        "with scratch_folder('train') as folder:\n"
        "    open(f'{folder}/job.pickle', 'w'); print(folder, flush=True); time.sleep(600)"
    )
    environment = os.environ | {"TMPDIR": str(temporary)}
    command = [sys.executable, "-c", code]
    processes = [
        subprocess.Popen(command, env=environment, stdout=subprocess.PIPE, text=True) for _ in range(2)
    ]
    try:
        folders = [Path(process.stdout.readline().strip()) for process in processes if process.stdout]
        processes[0].send_signal(signal.SIGKILL)
        processes[0].wait()
        for folder in folders:
            aged(folder)
        (young := temporary / "mcvrp-train-young").mkdir()  # which may not be locked yet
        with scratch_folder("train") as own:
            assert sorted(temporary.iterdir()) == sorted([folders[1], young, Path(own)])
        assert not Path(own).exists()
    finally:
        for process in processes:
            process.kill()
            process.wait()
    assert [path.name for path in folders[1].iterdir()] == ["job.pickle"]


def test_old_logs_go_and_what_is_not_ours_stays(temporary: Path) -> None:
    """A log is kept for a week, since an error message names it; other names and links are not touched."""
    kept = [temporary / name for name in ("mcvrp-new.log", "other.log", "mcvrp-notes.txt", "mcvrp-train")]
    for path in (temporary / "mcvrp-old.log", *kept):
        path.write_text("text")
    for path in (temporary / "mcvrp-old.log", *kept[1:]):
        aged(path)
    elsewhere = temporary / "elsewhere"
    elsewhere.mkdir()
    (temporary / "mcvrp-train-link").symlink_to(elsewhere)
    aged(elsewhere)
    sweep_scratch()
    assert sorted(temporary.iterdir()) == sorted([*kept, elsewhere, temporary / "mcvrp-train-link"])


def test_a_temporary_folder_that_cannot_be_listed_is_ignored(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("os.scandir", Mock(side_effect=PermissionError))
    sweep_scratch()


def test_a_file_system_without_locks_is_no_error(monkeypatch: pytest.MonkeyPatch) -> None:
    """NFS refuses an exclusive lock of a folder."""
    monkeypatch.setattr("fcntl.flock", Mock(side_effect=OSError(errno.EBADF, "Bad file descriptor")))
    with scratch_folder("train") as folder:
        assert Path(folder).is_dir()
