// The largest value that a number had within a period.

/** A value that counts until a time. */
interface FormerValue {
  readonly n: number;
  readonly until: number;
}

/** RecentPeak is the largest value of a number within the last milliseconds of a period. */
export class RecentPeak {
  readonly #period: number;
  #current = 0;
  /** Earlier values that are larger than all later ones. */
  readonly #former: FormerValue[] = [];

  constructor(period: number) {
    this.#period = period;
  }

  /** set changes the number. */
  set(now: number, n: number): void {
    if (n < this.#current && this.#period > 0) this.#former.push({ n: this.#current, until: now + this.#period });
    while (this.#former.length > 0 && this.#former.at(-1)!.n <= n) this.#former.pop();
    this.#current = n;
  }

  /** max returns the largest value of the period that ends now. */
  max(now: number): number {
    while (this.#former.length > 0 && this.#former[0]!.until <= now) this.#former.shift();
    return this.#former[0]?.n ?? this.#current;
  }

  /** falls returns when `max` becomes smaller if the number does not change. Call it after `max`. */
  falls(): number | undefined {
    return this.#former[0]?.until;
  }
}
