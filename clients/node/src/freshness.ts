// How long a state is current.

/** How long a message may be on its way, and the ages that servers do not state, in milliseconds. */
export const transit = 1000;

/**
 * Returns how long a copy counts as current after a server has confirmed it: three bookmark intervals. A server confirms
 * it once per interval, so it may be as old as two of them. That and the transit take longer than three short intervals.
 */
export function freshFor(bookmarks: number): number {
  return Math.max(3 * bookmarks, 2 * (bookmarks + transit));
}
