// Results that can be shown as JSON.

/** Something with revisions. As JSON, they are strings, because JSON.stringify refuses values of type bigint. */
export class Printable {
  toJSON(): Record<string, unknown> {
    const shown = ([name, value]: [string, unknown]): [string, unknown] => [name, typeof value === 'bigint' ? value.toString() : value];
    return Object.fromEntries(Object.entries(this).map(shown));
  }
}

/** printable makes a result printable. */
export function printable<T extends object>(result: T): T {
  return Object.assign(new Printable(), result);
}
