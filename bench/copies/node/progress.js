// Prints how far a copy is; the package internal/copies describes it.

export const [address, objects] = [process.argv[2], Number(process.argv[3])];

let loaded = false;
let changes = 0;

/** Is called with the size of the copy when it is complete. */
export function has(size) {
  if (!loaded && size === objects) {
    loaded = true;
    console.log('loaded');
  }
}

/** Is called for each change. Those before the copy was complete do not count. */
export function changed() {
  if (loaded && ++changes === objects) console.log('changed');
}

process.on('SIGINT', () => process.exit(0));
