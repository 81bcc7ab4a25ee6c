// The calls of handlers: whether a function runs inside of one, and of which handler.

import { AsyncLocalStorage } from 'node:async_hooks';
import { isThenable } from './fence.js';

/** A call of a function of a handler. */
interface Call {
  readonly owners: readonly object[];
  /** Ends the waiting for the call. Undefined if the call has ended. */
  abandon: (() => void) | undefined;
}

/** The calls in which the present function runs. */
const calls = new AsyncLocalStorage<readonly Call[]>();

/**
 * calling calls a function of a handler. It returns a promise if the function does. Until then, the owners wait for the
 * call, unless it waits for one of them.
 */
export function calling(owners: readonly object[], abandon: () => void, run: () => void | Promise<void>): Promise<void> | undefined {
  const call: Call = { owners, abandon };
  const around = calls.getStore()?.filter((other) => other.abandon) ?? [];
  let running: Promise<void> | undefined;
  try {
    const result = calls.run([...around, call], run);
    if (isThenable(result)) running = ended(call, result);
    return running;
  } finally {
    if (!running) call.abandon = undefined;
  }
}

async function ended(call: Call, result: PromiseLike<void>): Promise<void> {
  try {
    await result;
  } finally {
    call.abandon = undefined;
  }
}

/** abandonCalls ends the waiting of an owner for the calls in which the caller runs: they wait for the caller. */
export function abandonCalls(owner: object): void {
  for (const call of calls.getStore() ?? []) if (call.owners.includes(owner)) call.abandon?.();
}
