// Functions that are called when a signal is aborted.

/**
 * The functions that are called when a signal is aborted. They share one listener, because Node.js warns of a leak if a
 * signal has more than ten.
 */
class Abortion {
  static readonly #all = new WeakMap<AbortSignal, Abortion>();
  readonly #signal: AbortSignal;
  readonly #functions = new Set<() => void>();

  static of(signal: AbortSignal): Abortion {
    return Abortion.#all.get(signal) ?? new Abortion(signal);
  }

  private constructor(signal: AbortSignal) {
    this.#signal = signal;
    signal.addEventListener('abort', this.#aborted, { once: true });
    Abortion.#all.set(signal, this);
  }

  readonly #aborted = (): void => {
    Abortion.#all.delete(this.#signal);
    for (const call of this.#functions) call();
  };

  add(call: () => void): void {
    this.#functions.add(call);
  }

  remove(call: () => void): void {
    if (!this.#functions.delete(call) || this.#functions.size > 0) return;
    this.#signal.removeEventListener('abort', this.#aborted);
    Abortion.#all.delete(this.#signal);
  }
}

/**
 * onAbort calls a function when a signal is aborted, unless the returned function is called before. If the signal is
 * aborted already, it calls the function at once.
 */
export function onAbort(signal: AbortSignal, aborted: () => void): () => void {
  if (signal.aborted) {
    aborted();
    return () => {};
  }
  const call = () => aborted(); // the same function may be added twice
  const abortion = Abortion.of(signal);
  abortion.add(call);
  return () => abortion.remove(call);
}

/**
 * anySignal returns a signal that is aborted with the first of the signals. Unlike AbortSignal.any, it leaves nothing
 * behind at signals that live longer.
 */
export function anySignal(signals: readonly AbortSignal[]): { signal: AbortSignal; release: () => void } {
  const controller = new AbortController();
  const aborted = signals.find((signal) => signal.aborted);
  if (aborted) {
    controller.abort(aborted.reason);
    return { signal: controller.signal, release: () => {} };
  }
  const releases = signals.map((signal) => onAbort(signal, () => controller.abort(signal.reason)));
  return { signal: controller.signal, release: () => releases.forEach((release) => release()) };
}
