// Errors of requests.

import { fromBinary } from '@bufbuild/protobuf';
import { anyUnpack, durationMs } from '@bufbuild/protobuf/wkt';
import { Metadata, status, type ServiceError } from '@grpc/grpc-js';
import { BadRequestSchema, ErrorInfoSchema, RetryInfoSchema } from './gen/error_details_pb.js';
import { StatusSchema, type Status } from './gen/google/rpc/status_pb.js';

/**
 * The stable names of the causes of failed requests. docs/reference/errors.md explains each one. A newer server may send
 * reasons that are not listed here.
 */
export type Reason =
  | 'INVALID_REQUEST'
  | 'UNKNOWN_RESOURCE'
  | 'KEY_NOT_FOUND'
  | 'WATCH_NOT_FOUND'
  | 'WATCH_ID_IN_USE'
  | 'REVISION_IN_FUTURE'
  | 'REVISION_NOT_REACHED'
  | 'REVISION_EXPIRED'
  | 'PAGE_TOKEN_EXPIRED'
  | 'POSITION_EXPIRED'
  | 'EPOCH_CHANGED'
  | 'PRECONDITION_FAILED'
  | 'OPAQUE_VALUE'
  | 'VALUE_REFUSED'
  | 'WRITE_CONTENDED'
  | 'WRITE_TOO_LARGE'
  | 'NO_HISTORY'
  | 'NOT_READY'
  | 'STORE_UNAVAILABLE'
  | 'CLUSTER_FORMING'
  | 'WRITE_NOT_APPLIED'
  | 'NO_CLUSTER'
  | 'CLUSTER_UNSAFE'
  | 'MEMBER_NOT_FOUND'
  | 'STORE_FULL'
  | 'DRAINING'
  | 'UNAUTHENTICATED'
  | 'PERMISSION_DENIED'
  | 'ISSUER_UNAVAILABLE'
  | 'LIMIT_REACHED'
  | 'RATE_LIMITED'
  | 'REQUEST_TOO_LARGE'
  | 'INTERNAL'
  // Keeps the listed names in the completion of editors, and allows others.
  | (string & Record<never, never>);

/** One fault of an invalid request. */
export interface Violation {
  /** The path of the field, such as `operations[3].put.key`. */
  readonly field: string;
  readonly description: string;
}

/** What an error consists of. */
export interface FanoutErrorDetails {
  readonly code: status;
  readonly message: string;
  readonly reason?: Reason | undefined;
  readonly metadata?: Readonly<Record<string, string>> | undefined;
  readonly retryAfter?: number | undefined;
  readonly violations?: readonly Violation[] | undefined;
  readonly cause?: unknown;
}

/**
 * The error of a failed request. Decide by its `reason`, and by its `code` where the reason is unknown or
 * undefined.
 */
export class FanoutError extends Error {
  override readonly name: string = 'FanoutError';
  /** The gRPC code. */
  readonly code: status;
  /** The name of the gRPC code, such as `NOT_FOUND`. */
  readonly codeName: string;
  /** The cause. Undefined if the error does not come from fanoutd, for example because no server can be reached. */
  readonly reason: Reason | undefined;
  /** Details for programs. docs/reference/errors.md lists the entries. */
  readonly metadata: Readonly<Record<string, string>>;
  /** Milliseconds to wait before the same request may succeed. Undefined if the server does not say. */
  readonly retryAfter: number | undefined;
  /** The faults of an invalid request. */
  readonly violations: readonly Violation[];

  constructor(details: FanoutErrorDetails) {
    const { code, message, reason, metadata = {}, retryAfter, violations = [], cause } = details;
    super(`${message} (${reason ?? status[code]})`, cause === undefined ? undefined : { cause });
    this.code = code;
    this.codeName = status[code];
    this.reason = reason;
    this.metadata = metadata;
    this.retryAfter = retryAfter;
    this.violations = violations;
  }
}

/** The reason of errors after a client or an informer was closed. */
export const clientClosed = 'CLIENT_CLOSED';

/** @internal */
export function closedError(what: 'client' | 'informer' = 'client'): FanoutError {
  return new FanoutError({ code: status.CANCELLED, message: `the ${what} is closed`, reason: clientClosed });
}

const domain = 'fanoutd.github.io';

/** @internal errorOfStatus reads a status. */
export function errorOfStatus({ code: number, message, details }: Status, cause?: unknown): FanoutError {
  // eslint-disable-next-line @typescript-eslint/no-unsafe-enum-assignment -- the protocol has it as a number
  const code: status = number;
  let reason: string | undefined;
  let metadata: Record<string, string> = {};
  let retryAfter: number | undefined;
  let violations: Violation[] = [];
  for (const detail of details) {
    const info = anyUnpack(detail, ErrorInfoSchema);
    if (info?.domain === domain) ({ reason, metadata } = info);
    const retry = anyUnpack(detail, RetryInfoSchema);
    if (retry?.retryDelay) retryAfter = durationMs(retry.retryDelay);
    const bad = anyUnpack(detail, BadRequestSchema);
    if (bad) violations = bad.fieldViolations.map(({ field, description }) => ({ field, description }));
  }
  return new FanoutError({ code, message, reason, metadata, retryAfter, violations, cause });
}

/** @internal errorOfCall reads the error of a call of grpc-js. */
export function errorOfCall(error: unknown): FanoutError {
  if (error instanceof FanoutError) return error;
  const { code, details, metadata, message } = error as Partial<ServiceError>;
  if (typeof code !== 'number') {
    return new FanoutError({ code: status.INTERNAL, message: message ?? String(error), cause: error });
  }
  if (metadata instanceof Metadata) {
    for (const value of metadata.get('grpc-status-details-bin')) {
      try {
        return errorOfStatus(fromBinary(StatusSchema, value as Buffer), error);
      } catch {
        // The details are damaged. The code and the message remain.
      }
    }
  }
  return new FanoutError({ code, message: details ?? message ?? 'the request has failed', cause: error });
}

/** @internal unavailable returns the error of a client that could not reach a server. */
export function unavailable(message: string, cause?: unknown): FanoutError {
  return new FanoutError({ code: status.UNAVAILABLE, message, cause });
}

/** @internal UnsentError says that a connection was lost before the request was sent. */
export class UnsentError extends FanoutError {
  constructor() {
    super({ code: status.UNAVAILABLE, message: 'the connection was lost before the request was sent' });
  }
}

/** @internal The codes of requests that no server accepts, however often they are sent. */
export const finalCodes: ReadonlySet<status> = new Set([
  status.INVALID_ARGUMENT,
  status.NOT_FOUND,
  status.PERMISSION_DENIED,
  status.UNIMPLEMENTED,
  status.FAILED_PRECONDITION,
]);

/** @internal isFinal reports whether the same request fails again however often it is sent. */
export function isFinal(error: FanoutError): boolean {
  return finalCodes.has(error.code) || error.reason === 'REQUEST_TOO_LARGE';
}
