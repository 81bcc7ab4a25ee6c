// Knows whether the present function was called by a handler, and by which.

import { AsyncLocalStorage } from 'node:async_hooks';

/** A call of a function of a handler. */
interface Call {
  readonly owners: readonly object[];
  /** Ends the waiting for the call. Undefined if the call has ended. */
  abandon: (() => void) | undefined;
}

/** The calls in which the present function runs. */
const calls = new AsyncLocalStorage<readonly Call[]>();

/** calling calls a function of a handler. While it runs, the owners wait for it, unless it waits for one of them. */
export async function calling(owners: readonly object[], abandon: () => void, run: () => Promise<void>): Promise<void> {
  const around = (calls.getStore() ?? []).filter((other) => other.abandon);
  const call: Call = { owners, abandon };
  try {
    await calls.run([...around, call], run);
  } finally {
    call.abandon = undefined;
  }
}

/** abandonCalls ends the waiting of an owner for the calls in which the caller runs: they wait for the caller. */
export function abandonCalls(owner: object): void {
  for (const call of calls.getStore() ?? []) if (call.owners.includes(owner)) call.abandon?.();
}
