// Reads the details of a failed request.

import grpc from '@grpc/grpc-js';
import { decodeErrorInfo, decodeRetryInfo, decodeStatus } from './protocol.js';

const { status } = grpc;

// With these codes, the same request fails again however often it is sent.
const final = [
  status.INVALID_ARGUMENT,
  status.NOT_FOUND,
  status.PERMISSION_DENIED,
  status.UNAUTHENTICATED,
  status.UNIMPLEMENTED,
];

// Refusal is the content of the error of a call. docs/errors.md lists the reasons.
export class Refusal {
  reason = null; // only errors of fanoutd have a reason
  retryAfter = 0; // milliseconds

  constructor(error) {
    this.code = error.code;
    this.message = error.details;
    for (const value of error.metadata?.get('grpc-status-details-bin') ?? []) {
      for (const detail of decodeStatus(value).details) this.#read(detail);
    }
  }

  #read({ type_url, value }) {
    if (type_url.endsWith('/google.rpc.ErrorInfo')) {
      this.reason = decodeErrorInfo(value).reason;
    } else if (type_url.endsWith('/google.rpc.RetryInfo')) {
      const { seconds, nanos } = decodeRetryInfo(value).retry_delay;
      this.retryAfter = 1000 * Number(seconds) + nanos / 1e6;
    }
  }

  // final says whether no retry can help.
  get final() {
    return final.includes(this.code);
  }

  // positionLost says whether the server can never continue from the position.
  get positionLost() {
    return this.code === status.OUT_OF_RANGE;
  }

  toString() {
    return `${this.reason ?? status[this.code]}: ${this.message}`;
  }
}
