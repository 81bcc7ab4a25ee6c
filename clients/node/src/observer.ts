// Hooks for metrics.

import { fenced } from './fence.js';

/** A request that has ended, with all its attempts. */
export interface RequestEnd {
  /** The method of the protocol, such as `Get`. */
  readonly method: string;
  readonly resource: string;
  /** The name of the gRPC code: `OK`, `UNAVAILABLE`, ... */
  readonly code: string;
  /** How long it took, in milliseconds, with the pauses between attempts. */
  readonly duration: number;
  /** How often the request was sent. 0: it could not be. */
  readonly attempts: number;
}

/** A stream of a watch whose first message has arrived. */
export interface WatchOpened {
  readonly resource: string;
  /** The address of the server. */
  readonly server: string;
  /** The watch continues at a position. */
  readonly resumed: boolean;
  /** Other watches use the same stream. */
  readonly shared: boolean;
}

/** A message of a watch with events, or the end of a catch-up. */
export interface WatchReceived {
  readonly resource: string;
  /** The number of events. */
  readonly events: number;
  /** The catch-up that the message belongs to. Empty: it is live. */
  readonly catchUp: 'reset' | 'delta' | 'replay' | '';
  /** The catch-up has ended. */
  readonly synced: boolean;
}

/** A watch that has lost its stream. */
export interface WatchInterrupted {
  readonly resource: string;
  /** The name of the gRPC code of the error. */
  readonly code: string;
  /** The reason of the error, or empty. */
  readonly reason: string;
  /** Milliseconds until the watch resumes. */
  readonly delay: number;
}

/** A watch that has ended with an error that no retry can help. */
export interface WatchEnded {
  readonly resource: string;
  readonly code: string;
  readonly reason: string;
}

/** A change that a handler of an informer has rejected. */
export interface HandlerFailed {
  readonly resource: string;
  readonly key: string;
  readonly error: unknown;
  /** Milliseconds until the handler is called again. */
  readonly delay: number;
}

/** The state of a running informer, for metrics. */
export interface InformerState {
  /** The name of the resource. */
  readonly resource: string;
  /** The number of items. */
  readonly size: number;
  /** Whether the copy may be out of date. */
  readonly stale: boolean;
  /** The number of objects that cannot be decoded. */
  readonly invalid: number;
  /** The number of changes that handlers have not accepted yet. */
  readonly queue: number;
}

/** The hooks, and what each one gets. */
export interface ObserverEvents {
  request: RequestEnd;
  watchOpened: WatchOpened;
  watchReceived: WatchReceived;
  watchInterrupted: WatchInterrupted;
  watchEnded: WatchEnded;
  handlerFailed: HandlerFailed;
}

/**
 * Hooks for metrics. They are called at once and in order, and must return soon. What a hook throws is logged, and
 * changes nothing.
 */
export type Observer = { readonly [Hook in keyof ObserverEvents]?: ((event: ObserverEvents[Hook]) => unknown) | undefined };

/** @internal Hooks calls the hooks of an observer. */
export class Hooks {
  readonly #observer: Observer;

  constructor(observer: Observer = {}) {
    this.#observer = observer;
  }

  /** has reports whether there is a hook, for callers that would do work in vain. */
  has(hook: keyof ObserverEvents): boolean {
    return this.#observer[hook] !== undefined;
  }

  call<Hook extends keyof ObserverEvents>(hook: Hook, event: ObserverEvents[Hook]): void {
    if (this.has(hook)) fenced(`the hook ${hook}`, () => this.#observer[hook]?.(event));
  }
}
