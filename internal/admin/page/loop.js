// Asking again and again, as long as somebody looks.

const between = 2000; // milliseconds

// visible returns when the page can be seen.
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

// Loop calls a function that asks the server, and keeps in mind whether what is shown
// is still true.
export class Loop {
  constructor(ask, changed) {
    this.ask = ask;
    this.changed = changed; // is told when there is news of how it goes
    this.answered = undefined; // when there was an answer last
    this.error = undefined; // of the last question
    this.hurry = () => {};
    this.run();
  }

  // now asks without waiting for the next time.
  now() {
    this.hasty = true;
    this.hurry();
  }

  // fresh says whether what is shown is of the last seconds.
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
        this.error = error;
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
