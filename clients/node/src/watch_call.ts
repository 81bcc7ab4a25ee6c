// A watch on a stream of its own.

import type { ClientReadableStream } from '@grpc/grpc-js';
import { onEnd } from './call_end.js';
import type { OpenWatch, Report, WatchSink } from './carrier.js';
import { errorOfCall, type FanoutError } from './errors.js';
import type { WatchResponse } from './gen/fanout/v1/fanout_pb.js';
import type { Sized } from './methods.js';

export type WatchCallStream = ClientReadableStream<Sized<WatchResponse>>;

/** The response header that names the watch in reports. */
const header = 'fanout-watch';

/** openWatchCall begins a watch with the method Watch. `left` is called when the call has ended. */
export function openWatchCall(
  open: () => Promise<WatchCallStream>,
  send: (watch: string, report: Report) => Promise<FanoutError | undefined>,
  sink: Omit<WatchSink, 'asked'>,
  left: () => void,
): OpenWatch {
  let call: WatchCallStream | undefined;
  let stopped = false;
  let name: string | undefined;
  let paused = false;
  const begin = async () => {
    try {
      call = await open();
    } catch (error) {
      left();
      if (!stopped) sink.end(errorOfCall(error));
      return;
    }
    onEnd(call, (error) => {
      left();
      if (!stopped) sink.end(error);
    });
    call.on('metadata', (metadata) => {
      name = metadata.get(header)[0]?.toString();
    });
    call.on('data', ({ message, size }: Sized<WatchResponse>) => {
      if (!stopped) sink.message(message, size);
    });
    if (paused) call.pause();
    if (stopped) cancel();
  };
  const cancel = () => {
    call?.cancel();
    call?.resume(); // reads to the end
  };
  void begin();
  return {
    stop: () => {
      stopped = true;
      cancel();
    },
    report: (report) => (name === undefined ? Promise.resolve(undefined) : send(name, report)),
    pausable: true,
    pause: () => {
      paused = true;
      call?.pause();
    },
    resume: () => {
      paused = false;
      call?.resume();
    },
  };
}
