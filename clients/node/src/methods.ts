// The methods of the services, as grpc-js needs them.

import { create, fromBinary, toBinary, type DescMessage, type MessageInitShape, type MessageShape } from '@bufbuild/protobuf';
import {
  GetRequestSchema,
  GetResponseSchema,
  HistoryRequestSchema,
  HistoryResponseSchema,
  ListRequestSchema,
  ListResponseSchema,
  ReportRequestSchema,
  ReportResponseSchema,
  SubscribeRequestSchema,
  SubscribeResponseSchema,
  WatchRequestSchema,
  WatchResponseSchema,
} from './gen/fanout/v1/fanout_pb.js';
import {
  DeleteRequestSchema,
  DeleteResponseSchema,
  PutRequestSchema,
  PutResponseSchema,
  TransactRequestSchema,
  TransactResponseSchema,
} from './gen/fanout/v1/store_pb.js';

/** A message together with its encoded size, which bounds what is buffered. */
export interface Sized<T> {
  readonly message: T;
  readonly size: number;
}

/** A method of a service. */
export interface Method<I extends DescMessage, O extends DescMessage> {
  readonly path: string;
  /** Its name, such as `Get`. */
  readonly name: string;
  readonly serialize: (request: MessageInitShape<I>) => Buffer;
  readonly deserialize: (bytes: Buffer) => Sized<MessageShape<O>>;
}

/** method describes a method of a service. */
export function method<I extends DescMessage, O extends DescMessage>(service: string, name: string, input: I, output: O): Method<I, O> {
  return {
    path: `${service}${name}`,
    name,
    serialize: (request) => {
      const bytes = toBinary(input, create(input, request));
      return Buffer.from(bytes.buffer, bytes.byteOffset, bytes.byteLength);
    },
    deserialize: (bytes) => ({ message: fromBinary(output, bytes), size: bytes.length }),
  };
}

const reads = '/fanout.v1.FanoutService/';
const writes = '/fanout.v1.StoreService/';

export const methods = {
  get: method(reads, 'Get', GetRequestSchema, GetResponseSchema),
  list: method(reads, 'List', ListRequestSchema, ListResponseSchema),
  history: method(reads, 'History', HistoryRequestSchema, HistoryResponseSchema),
  watch: method(reads, 'Watch', WatchRequestSchema, WatchResponseSchema),
  report: method(reads, 'Report', ReportRequestSchema, ReportResponseSchema),
  subscribe: method(reads, 'Subscribe', SubscribeRequestSchema, SubscribeResponseSchema),
  put: method(writes, 'Put', PutRequestSchema, PutResponseSchema),
  delete: method(writes, 'Delete', DeleteRequestSchema, DeleteResponseSchema),
  transact: method(writes, 'Transact', TransactRequestSchema, TransactResponseSchema),
};
