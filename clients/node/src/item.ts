// Items of an informer.

import type { StoredObject } from './object.js';

/** An object of an informer, with its decoded value. */
export interface Item<T> {
  readonly key: string;
  /** The decoded value. */
  readonly value: T;
  /** The object that was decoded. */
  readonly object: StoredObject;
  /** Why the newest version of the object cannot be decoded. The value is that of the last version that could be. */
  readonly invalid: Error | undefined;
}

/** @internal sameObject reports whether two objects are the same version. */
export function sameObject(a: StoredObject | undefined, b: StoredObject | undefined): boolean {
  if (a === b) return true;
  if (!a || !b) return false;
  // In another epoch, the same revision may be another version.
  return (
    a.modRevision === b.modRevision &&
    a.createRevision === b.createRevision &&
    a.version === b.version &&
    a.contentType === b.contentType &&
    a.opaque === b.opaque &&
    a.hasTTL === b.hasTTL &&
    sameValue(a.value, b.value) &&
    sameLabels(a.labels, b.labels)
  );
}

function sameValue(a: StoredObject['value'], b: StoredObject['value']): boolean {
  if (a instanceof Uint8Array && b instanceof Uint8Array) return Buffer.compare(a, b) === 0;
  return a === b;
}

function sameLabels(a: StoredObject['labels'], b: StoredObject['labels']): boolean {
  const names = Object.keys(a);
  return names.length === Object.keys(b).length && names.every((name) => a[name] === b[name]);
}
