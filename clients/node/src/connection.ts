// A connection to one server.

import type { DescMessage, MessageInitShape, MessageShape } from '@bufbuild/protobuf';
import {
  Client as GrpcClient,
  connectivityState,
  status,
  type ChannelCredentials,
  type ChannelOptions,
  type ClientReadableStream,
  type Metadata,
} from '@grpc/grpc-js';
import { onEnd } from './call_end.js';
import type { OpenWatch, WatchSink, WatchStart } from './carrier.js';
import type { SubscriberOptions } from './client_options.js';
import { closedError, errorOfCall, FanoutError } from './errors.js';
import { methods, type Method, type Sized } from './methods.js';
import { SharedStream, type SubscribeCall } from './shared_stream.js';
import { openWatchCall, type WatchCallStream } from './watch_call.js';

/** What all connections of a client have in common. */
export interface ConnectionSettings {
  readonly credentials: ChannelCredentials;
  readonly options: ChannelOptions;
  readonly subscriber: SubscriberOptions;
  /** Returns the metadata of a request, with the token. */
  metadata(): Promise<Metadata>;
}

/** Settings of one request. */
export interface CallOptions {
  readonly signal?: AbortSignal | undefined;
  readonly deadline?: number | undefined;
}

/**
 * Connection is a channel that uses one server. A client replaces it when it has failed. It is closed when it was
 * replaced and its last request has ended.
 */
export class Connection {
  readonly #settings: ConnectionSettings;
  readonly #rpc: GrpcClient;
  #requests = 0;
  #used = false;
  #retired = false;
  #shut = false;
  #closed: FanoutError | undefined;
  #stream: SharedStream | undefined;
  #subscribes = true;
  readonly #ends = new Set<() => void>();

  /** `failed` is called when the connection should not be used any more, and `gone` when it is closed. */
  constructor(
    address: string,
    settings: ConnectionSettings,
    readonly failed: (connection: Connection) => void,
    private readonly gone: (connection: Connection) => void,
  ) {
    this.#settings = settings;
    this.#rpc = new GrpcClient(address, settings.credentials, settings.options);
  }

  #begin(): () => void {
    this.#requests++;
    this.#used = true;
    let ended = false;
    return () => {
      if (ended) return;
      ended = true;
      this.#requests--;
      this.#closeIfUnused();
    };
  }

  #closeIfUnused(): void {
    if (this.#shut || (!(this.#retired && this.#requests === 0) && !this.#closed)) return;
    this.#shut = true;
    this.#rpc.close();
    this.gone(this);
  }

  /** Whether the connection was lost while no request was open. gRPC would connect again with the old certificate. */
  get lost(): boolean {
    return this.#used && this.#requests === 0 && this.#rpc.getChannel().getConnectivityState(false) === connectivityState.IDLE;
  }

  /** retire makes the connection end with its last request. */
  retire(): void {
    this.#retired = true;
    this.#closeIfUnused();
  }

  /** close ends all requests. */
  close(): void {
    this.#closed = closedError();
    this.#stream?.cancel(this.#closed);
    for (const end of [...this.#ends]) end();
    this.#closeIfUnused();
  }

  /** watch begins a watch: with Subscribe, or with Watch if the server does not know Subscribe. */
  watch(request: WatchStart, sink: WatchSink): OpenWatch {
    if (!this.#subscribes) return this.#watchAlone(request, sink);
    this.#stream ??= this.#subscribe();
    let alone: OpenWatch | undefined;
    let stopped = false;
    const shared = this.#stream.watch(request, {
      message: (message, size) => sink.message(message, size),
      end: (error) => {
        if (this.#subscribes || stopped || this.#closed) sink.end(error);
        else alone = this.#watchAlone(request, sink);
      },
    });
    // The watch becomes pausable when it has moved to a stream of its own.
    return {
      stop: () => {
        stopped = true;
        (alone ?? shared).stop();
      },
      report: (report) => (alone ?? shared).report(report),
      get pausable() {
        return alone !== undefined;
      },
      pause: () => alone?.pause(),
      resume: () => alone?.resume(),
    };
  }

  #subscribe(): SharedStream {
    const left = this.#begin();
    const stream = new SharedStream(
      async () => {
        const metadata = await this.#settings.metadata();
        const { path, serialize, deserialize } = methods.subscribe;
        const call: SubscribeCall = this.#rpc.makeBidiStreamRequest(path, serialize, deserialize, metadata);
        call.write({ request: { case: 'subscriber', value: this.#settings.subscriber } });
        return call;
      },
      (error) => {
        if (this.#stream === stream) this.#stream = undefined;
        left();
        if (error?.code === status.UNIMPLEMENTED) this.#subscribes = false;
        else this.#requestFailed(error);
      },
    );
    return stream;
  }

  /** #requestFailed gives the connection up if a request has failed with an error that other requests would get, too. */
  #requestFailed(error: FanoutError | undefined): void {
    if (error?.code === status.UNAVAILABLE) this.failed(this);
  }

  #watchAlone(request: WatchStart, sink: WatchSink): OpenWatch {
    const left = this.#begin();
    const watch = openWatchCall(
      async () => {
        const metadata = await this.#settings.metadata();
        const { path, serialize, deserialize } = methods.watch;
        const named = { ...request, subscriber: this.#settings.subscriber } as WatchStart;
        const call: WatchCallStream = this.#rpc.makeServerStreamRequest(path, serialize, deserialize, named, metadata);
        return call;
      },
      async (name, report) => {
        try {
          await this.call(methods.report, { watch: name, ...report }, { deadline: Date.now() + 10_000 });
          return true;
        } catch (error) {
          return error instanceof FanoutError && error.reason === 'WATCH_NOT_FOUND';
        }
      },
      {
        message: (message, size) => sink.message(message, size),
        end: (error) => {
          this.#ends.delete(end);
          if (error?.reason === undefined) this.#requestFailed(error);
          sink.end(error);
        },
      },
      () => {
        this.#ends.delete(end);
        left();
      },
    );
    const end = () => {
      this.#ends.delete(end);
      watch.stop();
      sink.end(this.#closed);
    };
    this.#ends.add(end);
    return watch;
  }

  /** stream sends a request whose responses are a stream. It returns a function that ends the stream; nothing follows. */
  stream<I extends DescMessage, O extends DescMessage>(
    method: Method<I, O>,
    request: MessageInitShape<I>,
    sink: { message(message: MessageShape<O>): void; end(error?: FanoutError): void },
  ): () => void {
    const left = this.#begin();
    let call: ClientReadableStream<Sized<MessageShape<O>>> | undefined;
    let stopped = false;
    const ended = (error?: FanoutError) => {
      this.#ends.delete(end);
      left();
      if (!stopped) sink.end(error);
    };
    const stop = () => {
      stopped = true;
      call?.cancel();
      call?.resume(); // reads to the end
    };
    const end = () => {
      this.#ends.delete(end);
      stop();
      sink.end(this.#closed);
    };
    this.#ends.add(end);
    void this.#settings.metadata().then(
      (metadata) => {
        const { path, serialize, deserialize } = method;
        call = this.#rpc.makeServerStreamRequest(path, serialize, deserialize, request, metadata);
        onEnd(call, ended);
        call.on('data', ({ message }: Sized<MessageShape<O>>) => {
          if (!stopped) sink.message(message);
        });
        if (stopped) stop();
      },
      (error: unknown) => ended(errorOfCall(error)),
    );
    return stop;
  }

  /** call sends a request and waits for its response. */
  async call<I extends DescMessage, O extends DescMessage>(
    method: Method<I, O>,
    request: MessageInitShape<I>,
    { signal, deadline }: CallOptions,
  ): Promise<MessageShape<O>> {
    const left = this.#begin();
    try {
      const metadata = await this.#settings.metadata();
      signal?.throwIfAborted();
      if (this.#closed) throw this.#closed;
      return await new Promise((resolve, reject) => {
        const { path, serialize, deserialize } = method;
        const settle = () => {
          this.#ends.delete(end);
          signal?.removeEventListener('abort', abort);
        };
        const call = this.#rpc.makeUnaryRequest<MessageInitShape<I>, Sized<MessageShape<O>>>(
          path,
          serialize,
          deserialize,
          request,
          metadata,
          deadline === undefined ? {} : { deadline },
          (error, response) => {
            settle();
            if (response) {
              resolve(response.message);
              return;
            }
            const failure = errorOfCall(error);
            if (failure.reason === undefined) this.#requestFailed(failure);
            reject(failure);
          },
        );
        const abort = () => {
          settle();
          call.cancel();
          reject(signal?.reason as Error);
        };
        const end = () => {
          settle();
          call.cancel();
          reject(this.#closed!);
        };
        this.#ends.add(end);
        signal?.addEventListener('abort', abort, { once: true });
      });
    } finally {
      left();
    }
  }
}
