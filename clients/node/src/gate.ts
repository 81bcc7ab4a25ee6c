// Promises that are settled elsewhere.

/** A promise that is settled elsewhere, once. */
export class Gate {
  readonly promise: Promise<void>;
  open!: () => void;
  fail!: (error: unknown) => void;

  constructor() {
    this.promise = new Promise((resolve, reject) => {
      this.open = resolve;
      this.fail = reject;
    });
    this.promise.catch(() => {}); // it may fail while no caller waits
  }
}
