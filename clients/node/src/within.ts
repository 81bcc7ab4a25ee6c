// Promises with a time limit.

/** The longest delay of a timer. A longer one would fire at once. */
const longestTimer = 2 ** 31 - 1;

/** within waits for a promise, but not longer than so many milliseconds. It reports whether the promise has settled. */
export async function within(promise: Promise<unknown>, milliseconds: number): Promise<boolean> {
  let timer: NodeJS.Timeout | undefined;
  const expired = new Promise<boolean>((resolve) => {
    timer = setTimeout(() => resolve(false), Math.min(milliseconds, longestTimer));
  });
  try {
    return await Promise.race([promise.then(() => true), expired]);
  } finally {
    clearTimeout(timer);
  }
}
