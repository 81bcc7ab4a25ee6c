// Polling, while the page is visible.

import { Outdated } from './api.js';

const between = 2000; // milliseconds

// visible resolves when the page is visible.
function visible() {
  if (!document.hidden) return Promise.resolve();
  return new Promise((resolve) => {
    const look = () => {
      if (document.hidden) return;
      document.removeEventListener('visibilitychange', look);
      resolve();
    };
    document.addEventListener('visibilitychange', look);
  });
}

// Loop calls a function that asks the server at intervals, and remembers whether the shown
// data is current.
export class Loop {
  constructor(ask, changed) {
    this.ask = ask;
    this.changed = changed; // called when the state of the loop changes
    this.answered = undefined; // the time of the last answer
    this.error = undefined; // of the last request
    this.hurry = () => {};
    this.run();
  }

  // now asks without waiting for the interval.
  now() {
    this.hasty = true;
    this.hurry();
  }

  // forget drops the last answer, because it was for another token, and asks again.
  forget() {
    this.answered = undefined;
    this.error = undefined;
    this.now();
  }

  // fresh reports whether the last answer is a few seconds old at most.
  get fresh() {
    return !this.error && this.answered !== undefined && Date.now() - this.answered < 4 * between;
  }

  async run() {
    for (;;) {
      await visible();
      this.hasty = false;
      const began = performance.now();
      try {
        await this.ask();
        this.answered = Date.now();
        this.error = undefined;
      } catch (error) {
        if (!(error instanceof Outdated)) this.error = error;
      }
      this.changed();
      const rest = Math.max(between / 4, between - (performance.now() - began));
      if (this.hasty) continue;
      await new Promise((resolve) => {
        this.hurry = resolve;
        setTimeout(resolve, rest);
      });
    }
  }
}
