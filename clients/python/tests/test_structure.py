"""What a reader of the package can rely on."""

from __future__ import annotations

import ast
import enum
import inspect
import types
import unittest
from graphlib import CycleError, TopologicalSorter
from pathlib import Path

import fanoutd
import fanoutd.sync
from fanoutd.connection import Connection

_MODULES = {f"fanoutd.{file.stem}": file for file in Path(fanoutd.__file__).parent.glob("*.py")}
_MODULES["fanoutd"] = _MODULES.pop("fanoutd.__init__")


def _imports(file: Path) -> set[str]:
    """Return the modules of the package that a file imports, also for types only or in a function."""
    found = set()
    for node in ast.walk(ast.parse(file.read_text())):
        if isinstance(node, ast.Import):
            found |= {a.name for a in node.names}
        elif isinstance(node, ast.ImportFrom) and node.module is not None:
            named = {f"{node.module}.{a.name}" for a in node.names}
            found |= named if named & _MODULES.keys() else {node.module}
    return found


class StructureTest(unittest.TestCase):
    def test_imports_have_one_direction(self) -> None:
        graph = {name: _imports(file) & _MODULES.keys() for name, file in _MODULES.items()}
        try:
            TopologicalSorter(graph).prepare()
        except CycleError as error:
            self.fail(f"an import circle: {' <- '.join(error.args[1])}")

    def test_classes_of_users_have_no_methods_of_the_machinery(self) -> None:
        classes = {
            value for module in (fanoutd, fanoutd.sync) for name in module.__all__
            if inspect.isclass(value := getattr(module, name)) and not issubclass(value, tuple | enum.Enum)
        }  # fmt: skip
        classes.add(Connection)
        kinds = types.FunctionType, property, staticmethod, classmethod
        private = [
            f"{c.__module__}.{c.__qualname__}.{name}" for c in classes for name, value in vars(c).items()
            if isinstance(value, kinds) and name.startswith("_") and not name.startswith("__")
        ]  # fmt: skip
        # Configured has the first half of their constructors, and calls the second.
        self.assertEqual(sorted(private), ["fanoutd.client.Client._set_up", "fanoutd.sync.Client._set_up"])


if __name__ == "__main__":
    unittest.main()
