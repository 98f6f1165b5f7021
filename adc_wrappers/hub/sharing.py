"""Policy files to and from a model hub, with ``huggingface_hub``."""

from __future__ import annotations

import os
import tempfile
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from adc_wrappers.core.errors import MissingExtraError
from adc_wrappers.core.files import write_atomically

try:
    import huggingface_hub
    from huggingface_hub.errors import HfHubHTTPError, HFValidationError
except ImportError as error:
    raise MissingExtraError("huggingface_hub", "hub", "Sharing a policy") from error

__all__ = ["POLICY_NAME", "Pulled", "ShareError", "pull", "push"]

POLICY_NAME = "policy.onnx"
"""The file of a repository that is a policy; nothing else of it is ever read."""

_CLIENT_ERROR: type[Exception] = HfHubHTTPError.__bases__[0]
"""What every error of the library's HTTP client is, no connection included; the client differs between versions."""

_ERRORS: tuple[type[Exception], ...] = (HfHubHTTPError, _CLIENT_ERROR, HFValidationError, OSError)
_LARGEST = 200_000_000
_ENDPOINT = "HF_ENDPOINT"


class ShareError(ValueError):
    """A policy that could not be pushed or pulled; the message holds no token."""


@dataclass(frozen=True, kw_only=True)
class Pulled:
    """A policy that was brought here."""

    path: Path
    """The file, which has passed all checks of a policy file."""

    commit: str
    """The repository's commit that it is of."""


def push(
    files: dict[str, bytes], repo: str, *, private: bool = True, message: str = "Policy", token: str | None = None
) -> str:
    """Put files into a repository of models, in one commit, and return its address.

    Args:
        files: Content by name; among them the policy and its card.
        repo: ``owner/name``; it is made if it is not there.
        private: Whether a repository that is made is private; one that is there stays as it is.
        message: Message of the commit.
        token: By default the one of ``hf auth login`` or of ``HF_TOKEN``.

    Raises:
        ShareError: The hub refused it or cannot be reached.
    """
    api = huggingface_hub.HfApi(endpoint=os.environ.get(_ENDPOINT), token=token)
    operations = [
        huggingface_hub.CommitOperationAdd(path_in_repo=name, path_or_fileobj=content)
        for name, content in sorted(files.items())
    ]
    try:
        api.create_repo(repo, repo_type="model", private=private, exist_ok=True)
        commit = api.create_commit(repo, operations=operations, commit_message=message, repo_type="model")
    except _ERRORS as error:
        raise ShareError(f"{repo} was not pushed: {_without_token(error, token)}. {_HINT}") from None
    return str(commit.commit_url)


def pull(
    repo: str, out: Path, *, revision: str | None = None, overwrite: bool = False, token: str | None = None
) -> Pulled:
    """Bring the policy of a repository here; it is written only after it has passed what every policy file must.

    Args:
        repo: ``owner/name``.
        out: Where the file goes.
        revision: Branch, tag or commit; by default the newest.
        overwrite: Replace a file that is there.
        token: As in :func:`push`; none is needed for what is public.

    Raises:
        ShareError: The hub refused it, it cannot be reached, or the file is in the way.
        PolicyFileError: What was brought is not a policy file that can be trusted to say what it is.
    """
    if out.exists() and not overwrite:
        raise ShareError(f"{out} exists. Choose another name (--out), or replace it (--overwrite).")
    with tempfile.TemporaryDirectory() as folder:
        content, commit = _download(repo, revision, token, Path(folder))
    _check(content, f"{repo} at {commit[:12]}")
    out.parent.mkdir(parents=True, exist_ok=True)
    write_atomically(out, content)
    return Pulled(path=out, commit=commit)


def _download(repo: str, revision: str | None, token: str | None, folder: Path) -> tuple[bytes, str]:
    endpoint = os.environ.get(_ENDPOINT)
    try:
        address = huggingface_hub.hf_hub_url(repo, POLICY_NAME, revision=revision, endpoint=endpoint)
        found = huggingface_hub.get_hf_file_metadata(address, token=token, endpoint=endpoint)
        if found.size is None or found.size > _LARGEST:
            raise ShareError(f"{repo}: {POLICY_NAME} has {found.size} bytes; expected at most {_LARGEST:,}.")
        path = huggingface_hub.hf_hub_download(
            repo, POLICY_NAME, revision=found.commit_hash, cache_dir=folder, token=token, endpoint=endpoint
        )
    except ShareError:
        raise
    except _ERRORS as error:
        raise ShareError(f"{repo} was not pulled: {_without_token(error, token)}. {_HINT}") from None
    return Path(path).read_bytes(), str(found.commit_hash)


def _check(content: bytes, name: str) -> None:
    from adc_wrappers.policy import Policy, PolicyFileError

    try:
        Policy(content)
    except PolicyFileError as error:
        raise PolicyFileError(f"{name}: {error} Nothing was written.") from error


_HINT = (
    "Is the name owner/name right, is there a connection, and, for what is yours or private, did you log in "
    "(`hf auth login`, or HF_TOKEN)?"
)


def _without_token(error: BaseException, token: str | None) -> str:
    """Return an error in one line, with every token that could be in it struck out."""
    text = " ".join(str(error).split())[:500].rstrip(".")
    secrets: list[Any] = [token, huggingface_hub.get_token(), os.environ.get("HF_TOKEN")]
    for secret in filter(None, secrets):
        text = text.replace(str(secret), "***")
    return text
