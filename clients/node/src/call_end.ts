// The end of a streaming call.

import { status, type ClientDuplexStream, type ClientReadableStream, type StatusObject } from '@grpc/grpc-js';
import { errorOfCall, type FanoutError } from './errors.js';

/** onEnd calls a function once when the call has ended and all its messages were read. */
export function onEnd(
  call: ClientReadableStream<unknown> | ClientDuplexStream<unknown, unknown>,
  ended: (error?: FanoutError) => void,
): void {
  let final: StatusObject | undefined;
  let over = false;
  const check = () => {
    if (over || !final || !call.readableEnded) return;
    over = true;
    ended(final.code === status.OK ? undefined : errorOfCall(Object.assign(new Error(final.details), final)));
  };
  call.on('error', () => {}); // the status has the same content
  call.on('status', (s: StatusObject) => {
    final = s;
    check();
  });
  call.on('end', check);
}
