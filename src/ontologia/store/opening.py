"""From a binding to the backend it names; each backend's libraries are loaded only when it is opened.

Nothing else in the store knows which backends there are.
"""

from __future__ import annotations

from ontologia.base.clock import Clock
from ontologia.config import OntologiaConfig
from ontologia.store.binding import Binding
from ontologia.store.protocol import Backend


def open_backend(
    binding: Binding, config: OntologiaConfig, clock: Clock, *, read_only: bool = False, create: bool = True
) -> Backend:
    """The backend of a store. Files are created when missing; a prefix in object storage must be initialised first."""
    if not binding.on_objects:
        from ontologia.store.sqlite.backend import SqliteBackend

        return SqliteBackend(binding.path, config, clock, read_only=read_only, create=create)
    from ontologia.objects.s3 import open_objects
    from ontologia.store.objects.backend import ObjectsBackend

    objects = open_objects(binding.uri, config)
    try:
        return ObjectsBackend(objects, config, clock, read_only=read_only)
    except BaseException:
        objects.close()
        raise
