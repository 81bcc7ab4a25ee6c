// What carries the messages of a watch.

import type { MessageInitShape } from '@bufbuild/protobuf';
import type { FanoutError } from './errors.js';
import type { SubscribeRequest_ReportSchema, WatchRequestSchema, WatchResponse } from './gen/fanout/v1/fanout_pb.js';

/** The request of a watch. */
export type WatchStart = MessageInitShape<typeof WatchRequestSchema>;

/** What a client reports of a watch: applied, error, attempted. */
export type Report = Omit<Exclude<MessageInitShape<typeof SubscribeRequest_ReportSchema>, { $typeName: string }>, 'watchId'>;

/** Receives what a server sends for a watch. */
export interface WatchSink {
  /** The server is asked for messages. From now on, it may not be silent. */
  asked(): void;
  message(message: WatchResponse, size: number): void;
  /** The watch has ended: with OK if there is no error. Nothing follows. */
  end(error?: FanoutError): void;
}

/** A watch at a server. */
export interface OpenWatch {
  /** stop ends the watch. Nothing follows, not even an end. */
  stop(): void;
  /** report sends a report. It resolves to the error if the report has failed. */
  report(report: Report): Promise<FanoutError | undefined>;
  /** Whether the watch can pause: no other watch uses its stream. */
  readonly pausable: boolean;
  /** pause stops to read until `resume`. */
  pause(): void;
  resume(): void;
}
