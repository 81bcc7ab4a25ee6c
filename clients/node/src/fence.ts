// Calls functions of the user that have no caller who could handle their failures.

/** describe returns the message of what was thrown, which may be anything. */
export function describe(thrown: unknown): string {
  try {
    return String(thrown instanceof Error ? (thrown.message as unknown) : thrown);
  } catch {
    return 'a value that has no text';
  }
}

/** errorOf returns an error for what was thrown, which may be anything. */
export function errorOf(thrown: unknown): Error {
  return thrown instanceof Error ? thrown : new Error(describe(thrown), { cause: thrown });
}

/** warn logs what was thrown as a warning of the process. */
export function warn(what: string, thrown: unknown): void {
  process.emitWarning(`${what}: ${describe(thrown)}`, { type: 'FanoutdWarning', detail: stackOf(thrown) });
}

function stackOf(thrown: unknown): string {
  try {
    return thrown instanceof Error ? String(thrown.stack) : '';
  } catch {
    return ''; // the stack begins with the message, which has no text
  }
}

/** isThenable reports whether a value is a promise, or something like it. */
export function isThenable(value: unknown): value is PromiseLike<unknown> {
  return typeof value === 'object' && value !== null && 'then' in value && typeof value.then === 'function';
}

/** fenced calls a function of the user. If it throws or rejects, that is logged, and the caller goes on. */
export function fenced(what: string, call: () => unknown): void {
  const failed = (thrown: unknown) => warn(`${what} has failed`, thrown);
  try {
    const result = call();
    if (isThenable(result)) void Promise.resolve(result).catch(failed);
  } catch (thrown) {
    failed(thrown);
  }
}
