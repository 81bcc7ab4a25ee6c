// Saves a state in a file, so that a new process resumes where the last one ended.

import { closeSync, fsyncSync, openSync, readFileSync, renameSync, writeFileSync } from 'node:fs';
import { isDeepStrictEqual } from 'node:util';
import { listResponse } from './protocol.js';
import { State } from './state.js';

// Damaged is thrown if the file does not hold a state of this watch.
export class Damaged extends Error {}

// File is a file with the state of one watch.
//
// It holds the objects together with the position, because the server sends only what
// changed after the position. A ListResponse has both.
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
        throw new Error(`the state is of another watch: ${JSON.stringify(watch)}`);
      }
      const { objects, position } = listResponse.decode(Buffer.from(state, 'base64'));
      if (!position || position.revision === '0') throw new Error('the state has no position');
      return new State(objects, position);
    } catch (error) {
      if (error.code === 'ENOENT') return new State();
      throw new Damaged(`${this.#path}: ${error.message}`, { cause: error });
    }
  }

  // save replaces the file atomically.
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
