// A server that answers what a test says.

import { once } from 'node:events';
import { createServer, type AddressInfo, type Socket } from 'node:net';
import { create, fromBinary, toBinary, type DescMessage, type MessageInitShape, type MessageShape } from '@bufbuild/protobuf';
import { anyPack } from '@bufbuild/protobuf/wkt';
import type { status} from '@grpc/grpc-js';
import { Metadata, Server, ServerCredentials, type ServerDuplexStream, type ServerWritableStream } from '@grpc/grpc-js';
import { ErrorInfoSchema, RetryInfoSchema } from '../src/gen/error_details_pb.js';
import {
  GetRequestSchema,
  GetResponseSchema,
  ReportRequestSchema,
  ReportResponseSchema,
  SubscribeRequestSchema,
  SubscribeResponseSchema,
  WatchRequestSchema,
  WatchResponse_Kind as Kind,
  WatchResponseSchema,
  type GetRequest,
  type ReportRequest,
  type WatchRequest,
} from '../src/gen/fanout/v1/fanout_pb.js';
import { PutRequestSchema, PutResponseSchema, type PutRequest } from '../src/gen/fanout/v1/store_pb.js';
import { StatusSchema } from '../src/gen/google/rpc/status_pb.js';

type Init<D extends DescMessage> = MessageInitShape<D>;
type Unary<I, O> = (request: I, metadata: Metadata) => O | Promise<O>;

/** A stream of Watch at the server. */
export type WatchStream = ServerWritableStream<WatchRequest, Init<typeof WatchResponseSchema>>;
export type SubscribeStream = ServerDuplexStream<MessageShape<typeof SubscribeRequestSchema>, Init<typeof SubscribeResponseSchema>>;

/** What a server answers. A handler that throws the result of `refusal` refuses the request. */
export interface Script {
  get?: Unary<GetRequest, Init<typeof GetResponseSchema>>;
  put?: Unary<PutRequest, Init<typeof PutResponseSchema>>;
  watch?: (stream: WatchStream) => void;
  report?: Unary<ReportRequest, Init<typeof ReportResponseSchema>>;
  subscribe?: (stream: SubscribeStream) => void;
}

/** refusal returns an error of a server. Without a reason, it might come from a proxy. */
export function refusal(code: status, reason?: string, retryAfter?: number): Error {
  const details = [];
  if (reason !== undefined) details.push(anyPack(ErrorInfoSchema, create(ErrorInfoSchema, { reason, domain: 'fanoutd.github.io' })));
  if (retryAfter !== undefined) {
    const retryDelay = { seconds: BigInt(Math.floor(retryAfter / 1000)), nanos: (retryAfter % 1000) * 1e6 };
    details.push(anyPack(RetryInfoSchema, create(RetryInfoSchema, { retryDelay })));
  }
  const metadata = new Metadata();
  if (details.length > 0) {
    const content = create(StatusSchema, { code, message: 'refused', details });
    metadata.set('grpc-status-details-bin', Buffer.from(toBinary(StatusSchema, content)));
  }
  return Object.assign(new Error('refused'), { code, details: 'refused', metadata });
}

/** synced sends a whole state without objects. */
export function synced(stream: WatchStream, revision = 1n): void {
  stream.write({ kind: Kind.SYNCED, position: { epoch: 'e', revision } });
}

function definition(path: string, input: DescMessage, output: DescMessage, requestStream: boolean, responseStream: boolean) {
  return {
    path,
    requestStream,
    responseStream,
    requestSerialize: (message: never) => Buffer.from(toBinary(input, create(input, message))),
    requestDeserialize: (bytes: Buffer) => fromBinary(input, bytes),
    responseSerialize: (message: never) => Buffer.from(toBinary(output, create(output, message))),
    responseDeserialize: (bytes: Buffer) => fromBinary(output, bytes),
  };
}

/** A gRPC server on a free port of the loopback interface. */
export class ScriptedServer implements AsyncDisposable {
  readonly #server = new Server({ 'grpc.max_send_message_length': -1 });
  address = '';

  static async start(script: Script): Promise<ScriptedServer> {
    const scripted = new ScriptedServer();
    const unary = <I, O>(handle: Unary<I, O>) => (call: { request: I; metadata: Metadata }, callback: (error: unknown, response?: O) => void) => {
      void (async () => handle(call.request, call.metadata))().then((response) => callback(null, response), callback);
    };
    const service = {
      ...(script.get && { get: definition('/fanout.v1.FanoutService/Get', GetRequestSchema, GetResponseSchema, false, false) }),
      ...(script.put && { put: definition('/fanout.v1.StoreService/Put', PutRequestSchema, PutResponseSchema, false, false) }),
      ...(script.watch && { watch: definition('/fanout.v1.FanoutService/Watch', WatchRequestSchema, WatchResponseSchema, false, true) }),
      ...(script.report && { report: definition('/fanout.v1.FanoutService/Report', ReportRequestSchema, ReportResponseSchema, false, false) }),
      ...(script.subscribe && {
        subscribe: definition('/fanout.v1.FanoutService/Subscribe', SubscribeRequestSchema, SubscribeResponseSchema, true, true),
      }),
    };
    const handlers = {
      ...(script.get && { get: unary(script.get) }),
      ...(script.put && { put: unary(script.put) }),
      ...(script.watch && { watch: script.watch }),
      ...(script.report && { report: unary(script.report) }),
      ...(script.subscribe && { subscribe: script.subscribe }),
    };
    scripted.#server.addService(service as never, handlers as never);
    const port = await new Promise<number>((resolve, reject) => {
      scripted.#server.bindAsync('127.0.0.1:0', ServerCredentials.createInsecure(), (error, bound) => (error ? reject(error) : resolve(bound)));
    });
    scripted.address = `127.0.0.1:${port}`;
    return scripted;
  }

  [Symbol.asyncDispose](): Promise<void> {
    this.#server.forceShutdown();
    return Promise.resolve();
  }
}

/** A server that accepts connections and says nothing. */
export class SilentServer implements AsyncDisposable {
  readonly #server = createServer((socket) => {
    this.accepted++;
    this.#sockets.add(socket);
    socket.on('error', () => {});
    socket.on('close', () => this.#sockets.delete(socket));
    socket.resume();
  });
  readonly #sockets = new Set<Socket>();
  accepted = 0;

  static async start(): Promise<SilentServer> {
    const server = new SilentServer();
    server.#server.listen(0, '127.0.0.1');
    await once(server.#server, 'listening');
    return server;
  }

  get address(): string {
    return `127.0.0.1:${(this.#server.address() as AddressInfo).port}`;
  }

  async [Symbol.asyncDispose](): Promise<void> {
    this.#server.close();
    for (const socket of this.#sockets) socket.destroy();
    await once(this.#server, 'close');
  }
}
