// Keeps a state in a file, so that a new process goes on where the last one was.

import { closeSync, fsyncSync, openSync, readFileSync, renameSync, writeFileSync } from 'node:fs';
import { isDeepStrictEqual } from 'node:util';
import { listResponse } from './protocol.js';
import { State } from './state.js';

// Damaged says that the file does not hold a state of this watch.
export class Damaged extends Error {}

// File is a file with the state of one watch.
//
// A position alone would not do: who resumes there is told what changed since, and
// nothing of what was there before. So the objects are saved with it. A ListResponse is
// just that: objects and the position at which they were so.
export class File {
  #path;
  #watch;

  constructor(path, resource, prefix) {
    this.#path = path;
    this.#watch = { resource, prefix };
  }

  // load returns the saved state, or an empty one if there is no file.
  load() {
    try {
      const { watch, state } = JSON.parse(readFileSync(this.#path, 'utf8'));
      if (!isDeepStrictEqual(watch, this.#watch)) {
        throw new Error(`it is of another watch: ${JSON.stringify(watch)}`);
      }
      const { objects, position } = listResponse.decode(Buffer.from(state, 'base64'));
      if (!position || position.revision === '0') throw new Error('it has no position');
      return new State(objects, position);
    } catch (error) {
      if (error.code === 'ENOENT') return new State();
      throw new Damaged(`${this.#path}: ${error.message}`, { cause: error });
    }
  }

  // save replaces the file at once or not at all.
  save({ objects, position }) {
    if (!position) return;
    const state = listResponse.encode({ objects: [...objects.values()], position });
    const file = openSync(`${this.#path}.new`, 'w');
    try {
      writeFileSync(file, JSON.stringify({ watch: this.#watch, state: state.toString('base64') }));
      fsyncSync(file);
    } finally {
      closeSync(file);
    }
    renameSync(`${this.#path}.new`, this.#path);
  }
}
