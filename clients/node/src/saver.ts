// Saves the states of an informer.

import type { Position, StoredObject } from './object.js';
import { samePosition } from './object.js';
import type { StateFile } from './state_file.js';

/** The least time in milliseconds between two writes of the file. */
const interval = 5000;
/** The same if only the position has changed. */
const positionInterval = 300_000;

/** What is saved. */
export interface Saved {
  readonly position: Position | undefined;
  /** Changes whenever an object changes. */
  readonly version: number;
  objects(): Iterable<StoredObject>;
}

/** Saver keeps the newest state in a file. */
export class Saver {
  readonly #file: StateFile;
  readonly #state: () => Saved;
  readonly #failed: (error: Error) => void;
  #position: Position | undefined; // what the file has
  #version = -1;
  #savedAt = -Infinity;
  #failing = false;
  #timer: NodeJS.Timeout | undefined;
  #saving: Promise<void> | undefined;
  #stopped = false;

  /** `failed` is called for the first of consecutive failures. */
  constructor(file: StateFile, state: () => Saved, failed: (error: Error) => void) {
    this.#file = file;
    this.#state = state;
    this.#failed = failed;
  }

  /** loaded notes that the file has the present state. */
  loaded(): void {
    const { position, version } = this.#state();
    this.#position = position;
    this.#version = version;
    this.#savedAt = performance.now();
  }

  /** changed saves the state soon. */
  changed(): void {
    if (this.#stopped || this.#saving || this.#timer) return;
    const { version } = this.#state();
    const since = version === this.#version ? positionInterval : interval;
    const wait = this.#savedAt + since - performance.now();
    this.#timer = setTimeout(
      () => {
        this.#timer = undefined;
        // Meanwhile an object may have changed, or only the position.
        void this.#save();
      },
      // Look again soon: the next change may be one of an object.
      Math.min(Math.max(0, wait), interval),
    );
  }

  async #save(): Promise<void> {
    const { version } = this.#state();
    const due = this.#savedAt + (version === this.#version ? positionInterval : interval);
    if (this.#stopped || performance.now() < due - 1) return;
    this.#saving = this.#write();
    await this.#saving;
    this.#saving = undefined;
    this.changed();
  }

  async #write(): Promise<void> {
    const state = this.#state();
    const { position, version } = state;
    if (!position || samePosition(position, this.#position)) return;
    try {
      await this.#file.write(position, state.objects());
      this.#position = position;
      this.#version = version;
      this.#failing = false;
    } catch (error) {
      if (!this.#failing) this.#failed(error as Error);
      this.#failing = true;
    }
    this.#savedAt = performance.now();
  }

  /** stop saves the last state. */
  async stop(): Promise<void> {
    this.#stopped = true;
    clearTimeout(this.#timer);
    this.#timer = undefined;
    await this.#saving;
    await this.#write();
  }
}
