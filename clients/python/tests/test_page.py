"""The example of a unit test on the page of the client."""

from __future__ import annotations

import os
import unittest
from pathlib import Path
from typing import Any

_PAGE = Path(__file__).resolve().parents[3] / "docs/clients/python.md"


@unittest.skipUnless(os.environ.get("FANOUTTEST"), "FANOUTTEST does not name a program")
class PageTest(unittest.TestCase):
    """The example runs."""

    def test_the_unit_test(self) -> None:
        section = _PAGE.read_text().split("\n## Unit tests\n")[1]
        code = section.split("```python\n")[1].split("```")[0]
        names: dict[str, Any] = {}
        exec(compile(code, str(_PAGE), "exec"), names)
        [test] = [value for name, value in names.items() if name.startswith("test_")]
        test()


if __name__ == "__main__":
    unittest.main()
