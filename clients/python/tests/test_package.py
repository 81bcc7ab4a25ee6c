"""The package as its users see it: documentation, signatures, what the sdist and the wheel contain, and types."""

from __future__ import annotations

import ast
import email
import inspect
import re
import subprocess
import sys
import tarfile
import tempfile
import unittest
import zipfile
from collections.abc import Iterator
from pathlib import Path

import fanoutd
import fanoutd.sync

_ROOT = Path(__file__).resolve().parents[3]

_PROGRAM = """\
import asyncio
from typing import Any

import fanoutd.sync
from fanoutd import decode
from fanoutd.testing import Server


def show(change: fanoutd.Change[str]) -> None:
    print(change.key, change.new.value.upper() if change.new else "")


def tested() -> str:
    with Server("config", program="fanouttest") as server:
        server.new_epoch()
        return server.address


def blocking(servers: list[str]) -> int:
    with fanoutd.sync.Client(servers, tls=fanoutd.TLS(ca_file="ca.pem"), token=lambda: "secret") as client:
        config = client.resource("config")
        revision = config.put("a", "1", if_revision=0, message="why", skip_validation=True)
        for entry in config.history(key="a", values=True):
            print(entry.kind is fanoutd.HistoryKind.PUT, entry.author.upper(), entry.time and entry.time.isoformat())
        change: fanoutd.LastChange | None = config.get("a", last_change=True).last_change
        at: int = config.revision_at(change.time) if change else 0
        print(at)
        status: fanoutd.WaitStatus = config.wait(revision, key="a", quorum=0.5, progress=print)
        print(status.detail(), [w.name for w in status.pending])
        keys: list[str] = [o.key for o in config.list(prefix="a")]
        for update in config.watch(prefix="a", after=fanoutd.Position()):
            for event in update.events:
                print(event.type.value, event.object.value)
        with config.informer(decode.as_text, prefix="a", state_file="state") as copy:
            copy.add_handler(show).remove()
            copy.wait_for_sync(timeout=1.5)
            text: str = copy["a"]
            print(text, keys)
        return revision


async def main() -> None:
    async with fanoutd.Client("127.0.0.1:7420", labels={"app": "shop"}) as client:
        config = client.resource("config")
        value: Any = (await config.get("a", min_revision=blocking([]))).json()
        async for update in config.watch(key="a", latest=True):
            print(update.position.revision, value)
        async with config.informer(decode.as_text) as copy:
            copy.add_handler(show)
            print(copy["a"].upper())


asyncio.run(main())
"""

# mypy reports each line that names a kind of error, and no others.
_MISTAKES = """\
import fanoutd.sync
from fanoutd import decode


def show(change: fanoutd.Change[int]) -> None:
    print(change.key)


with fanoutd.sync.Client("127.0.0.1:7420", tokenfile="token") as client:  # call-arg
    pass
with fanoutd.sync.Client(7420) as client:  # arg-type
    config = client.resource("config")
    config.put("a", 1)  # arg-type
    config.put("a", "1", ttl="1s")  # arg-type
    config.put("a", "1", mesage="why")  # call-arg
    config.history(at="yesterday")  # arg-type
    config.get("a").jsn()  # attr-defined
    config.watch(prefx="a")  # call-arg
    config.informer(decode.as_text, prefix=1)  # arg-type
    config.informer(decode.as_text, statefile="state")  # call-arg
    with config.informer(decode.as_text) as copy:
        copy.add_handler(show)  # arg-type
        number: int = copy["a"]  # assignment
"""


class DocumentationTest(unittest.TestCase):
    """Everything public has a docstring."""

    def test_docstrings(self) -> None:
        folder = Path(fanoutd.__file__).parent
        files = sorted(folder.glob("*.py"))
        self.assertIn(folder / "sync.py", files)
        missing = [name for file in files for name in _undocumented(ast.parse(file.read_text()), file.stem)]
        self.assertEqual(missing, [])


def _undocumented(node: ast.Module | ast.ClassDef | ast.FunctionDef | ast.AsyncFunctionDef, name: str) -> Iterator[str]:
    """Yield the names of public modules, classes and functions without a docstring."""
    if not ast.get_docstring(node):
        yield name
    if isinstance(node, ast.Module | ast.ClassDef):
        for child in node.body:
            if isinstance(child, ast.ClassDef | ast.FunctionDef | ast.AsyncFunctionDef) and child.name[0] != "_":
                yield from _undocumented(child, f"{name}.{child.name}")


class SignatureTest(unittest.TestCase):
    """The functions of fanoutd.sync have the arguments of those of fanoutd."""

    def test_signatures(self) -> None:
        self._compare(fanoutd.sync.Client.__init__, fanoutd.Client.__init__)
        for name, function in inspect.getmembers(fanoutd.Resource, inspect.isfunction):
            if not name.startswith("_"):
                self._compare(getattr(fanoutd.sync.Resource, name), function)

    def _compare(self, blocking: object, other: object) -> None:
        assert callable(blocking) and callable(other)
        ours, theirs = inspect.signature(blocking).parameters, inspect.signature(other).parameters
        self.assertEqual(list(ours), list(theirs), other)
        for name, parameter in theirs.items():
            self.assertEqual((ours[name].kind, ours[name].default), (parameter.kind, parameter.default), other)


class PackagesTest(unittest.TestCase):
    """The sdist and the wheel."""

    folder: Path

    @classmethod
    def setUpClass(cls) -> None:
        temporary = tempfile.TemporaryDirectory()
        cls.addClassCleanup(temporary.cleanup)
        cls.folder = Path(temporary.name)
        _run("make", "-C", str(_ROOT), "client-python", f"DIST={cls.folder}", f"PYTHON={sys.executable}")
        _run(sys.executable, "-m", "venv", "--without-pip", "--system-site-packages", str(cls.folder / "venv"))

    def test_what_they_contain(self) -> None:
        [wheel] = self.folder.glob("*.whl")
        [sdist] = self.folder.glob("*.tar.gz")
        with zipfile.ZipFile(wheel) as z, tarfile.open(sdist) as t:
            in_wheel = {Path(name).name: z.read(name) for name in z.namelist()}
            in_sdist = {name.partition("/")[2]: t.extractfile(name) for name in t.getnames()}
            license_file = (_ROOT / "LICENSE").read_bytes()
            self.assertEqual(in_wheel["LICENSE"], license_file)
            packed = in_sdist["LICENSE"]
            assert packed is not None
            self.assertEqual(packed.read(), license_file)
            self.assertIn("CHANGELOG.md", in_sdist)
            self.assertNotIn("tests", in_sdist)
        metadata = email.message_from_bytes(in_wheel["METADATA"])
        urls = dict(line.split(", ", 1) for line in metadata.get_all("Project-URL", []))
        self.assertEqual(set(urls), {"Homepage", "Documentation", "Source", "Issues", "Changelog"})
        self.assertIn("License :: OSI Approved :: Apache Software License", metadata.get_all("Classifier", []))
        # On the page of a package index, relative links lead nowhere.
        links = re.findall(r"\]\(([^)]*)\)", metadata.get_payload())
        self.assertTrue(links)
        self.assertEqual([link for link in links if not link.startswith("https://")], [])

    def test_types(self) -> None:
        [wheel] = self.folder.glob("*.whl")
        [packages] = self.folder.glob("venv/lib/python*/site-packages")
        with zipfile.ZipFile(wheel) as z:
            self.assertIn("fanoutd/py.typed", z.namelist())
            z.extractall(packages)
        for name, text in ("program.py", _PROGRAM), ("mistakes.py", _MISTAKES):
            (self.folder / name).write_text(text)
        checked = subprocess.run(
            ["mypy", "--strict", "--python-executable", "venv/bin/python", "--no-error-summary", "--hide-error-context",
             "--no-color-output", "--config-file", "", "program.py", "mistakes.py"],
            cwd=self.folder, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True,
        )  # fmt: skip
        found = [line for line in checked.stdout.splitlines() if ": note: " not in line]
        want = [
            (f"mistakes.py:{n}", f"[{line.split('  # ')[1]}]")
            for n, line in enumerate(_MISTAKES.splitlines(), 1) if "  # " in line
        ]  # fmt: skip
        self.assertEqual([(line.split(": ")[0], line.split()[-1]) for line in found], want, checked.stdout)


def _run(*command: str) -> None:
    done = subprocess.run(command, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True)
    if done.returncode != 0:
        raise RuntimeError(done.stdout)


if __name__ == "__main__":
    unittest.main()
