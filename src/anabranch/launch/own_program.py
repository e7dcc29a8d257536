"""Stores the code and the settings of a job that runs in the same process as its coordinator. If a new version is to
replace the job, a different process can use them to close the old version's lanes first.
"""

from __future__ import annotations

import threading
from collections.abc import Callable
from pathlib import Path

from anabranch import config as configuration
from anabranch import logs
from anabranch.config import Settings
from anabranch.errors import AnabranchError, ConfigError
from anabranch.job_code import artifact, packed_modules
from anabranch.job_code.artifact import Artifact
from anabranch.launch import loaded_code, preparation
from anabranch.launch.preparation import Prepared
from anabranch.protocol.deployment import Program

__all__ = ["PackedCode", "of"]

_PACKED_WITHIN = 5.0
"""How many seconds a start, once Spark is running, still waits for the code to be packed."""

_UNREADABLE = (
    "files that can't be read as TOML aren't stored with the job's code, because they may hold secrets; if the code "
    "reads them, mend them, or give them another suffix"
)

log = logs.get_logger()


class PackedCode:
    """The code in a folder, which is packed in a separate thread, because folders can contain very many files."""

    def __init__(self, home: Path) -> None:
        self._home = home
        self._packed: Artifact | None = None
        self._unreadable: list[str] = []
        self._why = f"{home} has so many files that packing its code takes too long; put the job into its own folder"
        self._thread = threading.Thread(target=self._pack, name="packs the job's code", daemon=True)
        self._thread.start()

    def _pack(self) -> None:
        try:
            packed = artifact.pack(self._home, self._may_hold_secrets)
            if (file := loaded_code.changed(self._home, packed)) is not None:
                self._why = f"{file} was changed after the job was loaded"
                return
            packed_modules.check(self._home, packed)
            self._packed = packed
            if self._unreadable:
                log.warning(_UNREADABLE, files=self._unreadable)
        except (AnabranchError, OSError) as error:
            self._why = getattr(error, "what", str(error))

    def _may_hold_secrets(self, path: Path) -> bool:
        """Whether a file could contain secrets and must therefore be left out of the packed code. This is true of a
        TOML file that has a section of anabranch's settings, or that can't be read, for example because it is half
        edited. The check for secrets covers only the stored settings, which lack any settings of the file that are
        overridden or unused. Containers don't need the file, because the settings are stored.
        """
        if path.suffix.lower() != ".toml":
            return False
        try:
            return not Settings.model_fields.keys().isdisjoint(configuration.read_toml(path))
        except Exception:  # whatever is wrong with the file, it may hold secrets
            self._unreadable.append(str(path))
            return True

    def result(self) -> tuple[Artifact | None, str]:
        """The packed code and ''. If packing fails or takes too long, the result is None and the reason."""
        self._thread.join(_PACKED_WITHIN)
        packed = self._packed
        return packed, "" if packed is not None else self._why


def of(prepared: Prepared, settings: Settings, code: PackedCode, put: Callable[[str, bytes], object]) -> Program:
    """The program of a job that runs in this process. If the job's code or settings can't be stored, the program's
    field ``lacks`` gives the reason.

    Args:
        settings: the user's settings.
        put: stores code under its hash.
    """
    from anabranch.spark.query import resolution

    packed, lacks = code.result()
    stored: dict[str, object] = {}
    try:
        stored = configuration.dumped(settings)
    except ConfigError as error:
        lacks = f"{error.what} ({error.cure})"
    if settings.job.artifact == "image":
        lacks = 'with [job] artifact = "image", it stays in the image'
    if packed is not None and not lacks:
        put(packed.sha256, packed.content)
    return Program(
        artifact=packed.sha256 if packed is not None and not lacks else "",
        file=prepared.file.path.name,
        settings=stored,
        schemas=resolution.dumped(prepared.schemas),
        cores=preparation.cores(prepared.plan, settings),
        in_process=True,
        lacks=lacks,
    )
