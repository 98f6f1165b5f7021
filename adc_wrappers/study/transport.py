"""Run folders between machines that share no file system."""

from __future__ import annotations

import dataclasses
import io
import zipfile
from pathlib import Path

from adc_wrappers.core.files import write_atomically
from adc_wrappers.runs.lock import LOCK_FILE

from .engines import JobFunction
from .job import Job, JobResult
from .plan import STUDY_FILE

__all__ = ["pack_unless_shared", "unpack"]


def pack_unless_shared(function: JobFunction, job: Job) -> JobResult:
    """Do a job; if this machine does not see the study's folder, return the run folder with the result."""
    folder = Path(job.folder)
    shared = (folder.parents[1] / STUDY_FILE).exists()
    result = function(job)
    if shared:
        return result
    content = io.BytesIO()
    with zipfile.ZipFile(content, "w", zipfile.ZIP_DEFLATED) as archive:
        for path in sorted(folder.rglob("*")):
            if path.is_file() and path.name != LOCK_FILE:
                archive.write(path, path.relative_to(folder))
    return dataclasses.replace(result, archive=content.getvalue())


def unpack(result: JobResult, folder: Path) -> JobResult:
    """Write the run folder that came with a result, if one did."""
    if result.archive is None:
        return result
    with zipfile.ZipFile(io.BytesIO(result.archive)) as archive:
        names = archive.namelist()
        for name in names:
            if not (folder / name).resolve().is_relative_to(folder.resolve()):
                raise ValueError(f"the run folder that came back has a file outside of itself: {name!r}.")
        for name in sorted(names, key=lambda name: name == "eval.json"):  # last: it says that the run is finished
            write_atomically(folder / name, archive.read(name))
    return dataclasses.replace(result, archive=None)
