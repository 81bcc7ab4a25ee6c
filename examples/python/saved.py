"""Saves a state in a file, so that a new process resumes where the last one ended."""

import base64
import json
import os

from fanout.v1.fanout_pb2 import ListResponse
from state import State


class Damaged(Exception):
    """The file does not hold a state of this watch."""


class File:
    """A file with the state of one watch.

    It holds the objects together with the position, because the server sends only what
    changed after the position. A ListResponse has both.
    """

    def __init__(self, path, resource, prefix):
        self._path = path
        self._watch = {"resource": resource, "prefix": prefix}

    def load(self):
        """Returns the saved state, or an empty one if there is no file."""
        try:
            with open(self._path, encoding="utf-8") as file:
                saved = json.load(file)
            if saved["watch"] != self._watch:
                raise ValueError(f"the state is of another watch: {saved['watch']}")
            listed = ListResponse.FromString(base64.b64decode(saved["state"]))
            if listed.position.revision == 0:
                raise ValueError("the state has no position")
        except FileNotFoundError:
            return State()
        except Exception as error:  # the parsers raise many types
            raise Damaged(f"{self._path}: {error}") from error
        return State(listed.objects, listed.position)

    def save(self, state):
        """Replaces the file atomically."""
        if state.position is None:
            return
        listed = ListResponse(objects=state.objects.values(), position=state.position)
        encoded = base64.b64encode(listed.SerializeToString()).decode()
        with open(self._path + ".new", "w", encoding="utf-8") as file:
            json.dump({"watch": self._watch, "state": encoded}, file)
            file.flush()
            os.fsync(file.fileno())
        os.replace(self._path + ".new", self._path)
