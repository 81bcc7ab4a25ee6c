// States of an informer in their order.

import type { Position } from './object.js';

/** Mark is a state of an informer: its number, and its position. Positions of two epochs have no order. */
export interface Mark {
  readonly number: number;
  readonly position: Position | undefined;
}

/** earliest returns the mark with the lowest number. */
export function earliest(first: Mark, ...others: Mark[]): Mark {
  return others.reduce((a, b) => (b.number < a.number ? b : a), first);
}
