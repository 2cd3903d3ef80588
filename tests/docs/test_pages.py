"""Every block in README.md and docs/ does what its page says."""

from __future__ import annotations

import re
from pathlib import Path

import pytest
import s3server
from docs.pages import Block, PageError, blocks, matches, not_executed, run_console, run_page

ROOT = Path(__file__).resolve().parents[2]
PAGES = [ROOT / "README.md", *sorted((ROOT / "docs").rglob("*.md"))]
EXECUTED = [page for page in PAGES if not_executed(page.read_text(encoding="utf-8")) is None]


def page_name(page: Path) -> str:
    return page.relative_to(ROOT).as_posix()


PAGES_ON_S3 = {ROOT / "docs/guides/s3.md"}
BUCKET = "my-bucket"


@pytest.fixture
def bucket_of_the_page(s3_endpoint: str, s3_environment: None, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The bucket that pages speak of, empty, and settings that lead there."""
    s3server.ensure_bucket(s3_endpoint, BUCKET)
    server = s3server.client(s3_endpoint)
    for found in server.get_paginator("list_objects_v2").paginate(Bucket=BUCKET):
        for one in found.get("Contents", ()):
            server.delete_object(Bucket=BUCKET, Key=one["Key"])
    server.close()
    monkeypatch.setenv("ONTOLOGIA_S3_ENDPOINT_URL", s3_endpoint)
    monkeypatch.setenv("ONTOLOGIA_S3_REGION", s3server.REGION)
    monkeypatch.setenv("ONTOLOGIA_S3_CACHE_DIR", str(tmp_path / "cache"))


@pytest.mark.parametrize("page", [page for page in EXECUTED if page not in PAGES_ON_S3], ids=page_name)
def test_a_page_does_what_it_says(page: Path, tmp_path: Path) -> None:
    run_page(page, tmp_path)


@pytest.mark.parametrize("page", sorted(PAGES_ON_S3), ids=page_name)
def test_a_page_about_object_storage_does_what_it_says(page: Path, bucket_of_the_page: None, tmp_path: Path) -> None:
    run_page(page, tmp_path)


@pytest.mark.parametrize("page", PAGES, ids=page_name)
def test_links_lead_somewhere(page: Path) -> None:
    text = re.sub(r"```.*?```", "", page.read_text(encoding="utf-8"), flags=re.DOTALL)
    targets = [target.partition("#")[0] for target in re.findall(r"\]\(([^)\s]+)\)", text) if "://" not in target]
    assert not [target for target in targets if target and not (page.parent / target).exists()]


@pytest.mark.parametrize("page", PAGES, ids=page_name)
def test_make_targets_named_in_a_page_exist(page: Path) -> None:
    targets = set(re.findall(r"^([a-z]+):.*## ", (ROOT / "Makefile").read_text(encoding="utf-8"), re.MULTILINE))
    text = page.read_text(encoding="utf-8")
    named = set(re.findall(r"`make ([a-z]+)", text)) | set(re.findall(r"^make ([a-z]+)", text, re.MULTILINE))
    assert named <= targets


def write(directory: Path, text: str) -> Path:
    """A page made for a test."""
    page = directory / "page.md"
    page.write_text(text, encoding="utf-8")
    return page


def test_blocks_of_a_page_share_names_files_and_directory(tmp_path: Path) -> None:
    page = write(
        tmp_path,
        '```python title="pets.py"\nNAME = "Rex"\n```\n'
        "```python\nfrom pathlib import Path\nfrom pets import NAME\nPath('out.txt').write_text(NAME)\n```\n"
        "```python\n>>> NAME\n'Rex'\n>>> again = NAME * 2\n```\n"
        "```python\nassert again == 'RexRex'\n```\n"
        "```console\n$ cat out.txt\nRex\n$ cat \\\n>   missing.txt; echo $?\n...\n1\n```\n"
        "```sh\nexit 1\n```\n",
    )
    assert run_page(page, tmp_path) == 5


@pytest.mark.parametrize(
    "text",
    [
        "```python\nassert 1 == 2\n```\n",
        "```python\n>>> 1 + 1\n3\n```\n",
        "```console\n$ echo one\ntwo\n```\n",
        "```console\n$ exit 3\n```\n",
        "```console\n$ false | cat\n```\n",
        "```console\necho one\n```\n",
        '```python title="broken.py"\nimport no_such_module_anywhere\n```\n',
        "```python\nx = 1\n",
    ],
)
def test_a_block_that_is_wrong_fails_its_page(text: str, tmp_path: Path) -> None:
    with pytest.raises((AssertionError, ImportError)):
        run_page(write(tmp_path, text), tmp_path)


def test_a_failing_command_is_named_with_its_line(tmp_path: Path) -> None:
    with pytest.raises(PageError, match=r"a\.md, line 7: `false` ended with exit code 1"):
        run_console(Block("console", None, 7, "$ false\n"), tmp_path, "a.md, line 7")


def test_dots_stand_for_any_text_or_any_lines() -> None:
    assert matches("commit ... by me\n...\nend", "commit 7 by me\na\nb\nend\n")
    assert matches("one\n...\ntwo", "one  \ntwo\n")
    assert not matches("one\n...", "two\none\n")
    assert not matches("a ... c", "a b\nc\n")


def test_a_page_is_left_out_only_with_a_reason() -> None:
    assert not_executed("<!-- not executed: needs a bucket -->\n# Page") == "needs a bucket"
    assert not_executed("<!-- not executed: -->\n# Page") is None
    assert not_executed("# Page\n<!-- not executed: late -->") is None


def test_a_block_knows_its_line_and_language() -> None:
    found = list(blocks("# T\n\n1. item\n\n   ```python\n   x = 1\n   ```\n\n```\nplain\n```\n"))
    assert [(block.language, block.line, block.text) for block in found] == [
        ("python", 6, "x = 1\n"),
        ("", 10, "plain\n"),
    ]
