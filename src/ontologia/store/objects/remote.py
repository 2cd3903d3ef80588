"""Large data files read in place: a pyarrow dataset over ranged gets, of which DuckDB asks columns and row groups.

Footers are fetched once and cached. Every row group is a fragment of its own, so that those a query needs are read side
by side, each with neighbouring columns in one request. What goes wrong in a request is kept, because the libraries in
between pass on no more than its text.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import pyarrow as pa
import pyarrow.dataset as arrow_dataset
import pyarrow.fs as arrow_fs

from ontologia.objects.cache import DiskCache
from ontologia.objects.port import Objects
from ontologia.store.objects.merging import damaged
from ontologia.store.objects.records import DataFile

_TAIL = 65_536
_HOLE = 1 << 20
"""Bytes that are read in vain rather than asking twice."""
_RANGE = 32 << 20
_MAGIC = b"PAR1"


class RemoteFiles:
    """Some large files of one type as one dataset, and the failures met in reading it."""

    def __init__(self, objects: Objects, cache: DiskCache, files: Sequence[DataFile]) -> None:
        self.keys = [one.path for one in files]
        self.failures: list[Exception] = []
        tails = {one.path: _tail(objects, cache, one) for one in files}
        opened = _Opened(objects, tails, self.failures)
        filesystem = arrow_fs.PyFileSystem(opened)
        options = arrow_dataset.ParquetFragmentScanOptions(
            pre_buffer=True, cache_options=pa.CacheOptions(hole_size_limit=_HOLE, range_size_limit=_RANGE)
        )
        form = arrow_dataset.ParquetFileFormat(default_fragment_scan_options=options)
        whole = [form.make_fragment(one.path, filesystem=filesystem, file_size=_size(objects, one)) for one in files]
        try:
            schema = pa.unify_schemas([fragment.physical_schema for fragment in whole])
            groups = [group for fragment in whole for group in fragment.split_by_row_group()]
        except (pa.ArrowException, OSError) as error:
            raise damaged(", ".join(self.keys), str(error)) from error
        self.dataset: Any = arrow_dataset.FileSystemDataset(groups, schema, form, filesystem)


def _size(objects: Objects, one: DataFile) -> int:
    return objects.size(one.path) if one.size is None else one.size


def _tail(objects: Objects, cache: DiskCache, one: DataFile) -> tuple[int, bytes]:
    """The size of a file and its last bytes, the whole footer among them."""
    size = _size(objects, one)
    # A key may be written again with other content: what is cached says which content it is of.
    mark = f"{size} {one.content_sha256}\n".encode()
    for _ in range(2):
        found = cache.get_bytes(one.path, None, lambda: mark + _footer(objects, one.path, size), aspect="-footer")
        if found.startswith(mark):
            return size, found[len(mark) :]
        cache.forget(one.path)
    return size, _footer(objects, one.path, size)


def _footer(objects: Objects, key: str, size: int) -> bytes:
    data = objects.get_range(key, max(0, size - _TAIL), size)
    length = int.from_bytes(data[-8:-4], "little") + 8
    if data[-4:] != _MAGIC or length > size:
        raise damaged(key, "it does not end as a Parquet file does")
    if length > len(data):
        data = objects.get_range(key, size - length, size - len(data)) + data
    return data


class _RangedFile:
    """An object as the file that pyarrow wants: it seeks and reads, and never reads what it was not asked for."""

    closed = False

    def __init__(self, objects: Objects, key: str, tail: tuple[int, bytes], failures: list[Exception]) -> None:
        self._objects = objects
        self._key = key
        self._size, self._tail = tail
        self._failures = failures
        self._position = 0

    def read(self, count: int = -1) -> bytes:
        start = self._position
        end = self._size if count < 0 else min(self._size, start + count)
        self._position = max(start, end)
        held_from = self._size - len(self._tail)
        if start >= held_from or start >= end:
            return self._tail[start - held_from : end - held_from]
        try:
            return self._objects.get_range(self._key, start, end)
        except Exception as error:
            self._failures.append(error)
            raise

    def seek(self, offset: int, whence: int = 0) -> int:
        self._position = offset + (0, self._position, self._size)[whence]
        return self._position

    def tell(self) -> int:
        return self._position

    def size(self) -> int:
        return self._size

    def readable(self) -> bool:
        return True

    def seekable(self) -> bool:
        return True

    def writable(self) -> bool:
        return False

    def flush(self) -> None: ...

    def close(self) -> None:
        self.closed = True


class _Opened(arrow_fs.FileSystemHandler):
    """A file system of exactly the files that are read; there is nothing to list and nothing to write."""

    def __init__(self, objects: Objects, tails: dict[str, tuple[int, bytes]], failures: list[Exception]) -> None:
        self._objects = objects
        self._tails = tails
        self._failures = failures

    def get_type_name(self) -> str:
        return "ontologia"

    def normalize_path(self, path: str) -> str:
        return path

    def get_file_info(self, paths: Sequence[str]) -> list[Any]:
        return [arrow_fs.FileInfo(path, arrow_fs.FileType.File, size=self._tails[path][0]) for path in paths]

    def open_input_file(self, path: str) -> Any:
        return pa.PythonFile(_RangedFile(self._objects, path, self._tails[path], self._failures), mode="r")

    def open_input_stream(self, path: str) -> Any:
        return self.open_input_file(path)

    def _refuse(self, *_arguments: Any, **_options: Any) -> Any:
        raise PermissionError("data files are only ever read")

    get_file_info_selector = create_dir = delete_dir = delete_dir_contents = delete_root_dir_contents = _refuse
    delete_file = move = copy_file = open_output_stream = open_append_stream = _refuse
