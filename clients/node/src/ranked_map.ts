// Maps that know their first entry.

/** An entry of a {@link RankedMap}. */
interface Entry<V> {
  readonly key: string;
  readonly rank: number;
  readonly value: V;
}

/** A map that finds the entry with the lowest rank without looking at the others. It is a binary heap with an index. */
export class RankedMap<V> {
  readonly #heap: Entry<V>[] = [];
  readonly #places = new Map<string, number>();

  get size(): number {
    return this.#heap.length;
  }

  /** The entry with the lowest rank. */
  get first(): Entry<V> | undefined {
    return this.#heap[0];
  }

  get(key: string): V | undefined {
    const place = this.#places.get(key);
    return place === undefined ? undefined : this.#heap[place]!.value;
  }

  /** All keys, in no particular order. */
  keys(): IterableIterator<string> {
    return this.#places.keys();
  }

  /** All values, in no particular order. */
  *values(): Generator<V, void, void> {
    for (const { value } of this.#heap) yield value;
  }

  set(key: string, rank: number, value: V): void {
    const place = this.#places.get(key) ?? this.#heap.length;
    this.#settle({ key, rank, value }, place);
  }

  delete(key: string): boolean {
    const place = this.#places.get(key);
    if (place === undefined) return false;
    this.#places.delete(key);
    const last = this.#heap.pop()!;
    if (last.key !== key) this.#settle(last, place);
    return true;
  }

  /** #settle puts an entry into a place that is free, or up or down from there to where it belongs. */
  #settle(entry: Entry<V>, place: number): void {
    while (place > 0) {
      const above = (place - 1) >> 1;
      if (this.#heap[above]!.rank <= entry.rank) break;
      this.#put(this.#heap[above]!, place);
      place = above;
    }
    for (;;) {
      let below = 2 * place + 1;
      if (below >= this.#heap.length) break;
      if (below + 1 < this.#heap.length && this.#heap[below + 1]!.rank < this.#heap[below]!.rank) below++;
      if (this.#heap[below]!.rank >= entry.rank) break;
      this.#put(this.#heap[below]!, place);
      place = below;
    }
    this.#put(entry, place);
  }

  #put(entry: Entry<V>, place: number): void {
    this.#heap[place] = entry;
    this.#places.set(entry.key, place);
  }
}
