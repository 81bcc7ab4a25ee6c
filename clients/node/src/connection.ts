// A connection to one server.

import type { DescMessage, MessageInitShape, MessageShape } from '@bufbuild/protobuf';
import { Client as GrpcClient, connectivityState, Metadata, status, type ClientReadableStream } from '@grpc/grpc-js';
import { onAbort } from './abort.js';
import { onEnd } from './call_end.js';
import type { OpenWatch, WatchSink, WatchStart } from './carrier.js';
import type { ConnectionSettings } from './credentials.js';
import { Deadline, deadlineError, limited } from './deadline.js';
import { closedError, errorOfCall, unavailable, UnsentError, type FanoutError } from './errors.js';
import type { Logger } from './logger.js';
import { methods, type Method, type Sized } from './methods.js';
import { OpenedSockets } from './opened_sockets.js';
import type { RequestMetadata } from './options.js';
import { SharedStream, type SubscribeCall } from './shared_stream.js';
import type { SubscribeSupport } from './subscribe_support.js';
import { openWatchCall, type WatchCallStream } from './watch_call.js';

/** How long in milliseconds a server has to answer a report. */
const reportTimeout = 10_000;

/** How long in milliseconds a server has to answer another request if it does not answer Subscribe. */
const otherTimeout = 20_000;

/** The codes of a request that the server may not have answered. */
const noAnswer: ReadonlySet<number> = new Set([status.UNAVAILABLE, status.DEADLINE_EXCEEDED, status.CANCELLED]);

/** A server cancels a call at its deadline, which it may reach a few milliseconds before the client. */
const clockDifference = 5;

/** The codes of errors that other servers would answer, too: they would not take the position or the credentials either. */
const sameElsewhere: ReadonlySet<number> = new Set([status.OUT_OF_RANGE, status.UNAUTHENTICATED]);

/** Settings of one call. */
export interface CallSettings {
  readonly signal?: AbortSignal | undefined;
  readonly deadline: Deadline;
  readonly metadata?: RequestMetadata | undefined;
  /** Called when the request is sent. */
  readonly sent?: () => void;
}

/** What connections need of the client to which they belong. */
export interface ConnectionOwner {
  /** The signal that is aborted when the client is closed. */
  readonly closing: AbortSignal;
  readonly log: Logger;
  readonly subscribe: SubscribeSupport;
  /** Whether there are several servers. */
  readonly hasOthers: boolean;
  /** failed makes later requests use another connection. */
  failed(connection: Connection): void;
  /** refused makes later requests use another server. */
  refused(connection: Connection): void;
  /** gone forgets a connection that is closed. */
  gone(connection: Connection): void;
}

/**
 * Connection is a channel that uses one connection to one server. A client replaces it when it is lost or has failed. It
 * is closed when it was replaced and its last request has ended.
 */
export class Connection {
  /** The index of the server. */
  readonly server: number;
  readonly address: string;
  readonly #settings: ConnectionSettings;
  readonly #owner: ConnectionOwner;
  readonly #rpc: GrpcClient;
  #requests = 0;
  #retired = false;
  #shut = false;
  #closed: FanoutError | undefined;
  #stream: SharedStream | undefined;
  readonly #ends = new Set<() => void>();

  constructor(server: number, address: string, settings: ConnectionSettings, owner: ConnectionOwner) {
    this.server = server;
    this.address = address;
    this.#settings = settings;
    this.#owner = owner;
    this.#rpc = new GrpcClient(address, settings.credentials, settings.options);
  }

  /**
   * connect waits until the connection is ready: for TCP, TLS and the SETTINGS frame of the server. If it fails, the
   * connection is closed.
   */
  connect(timeout: number): Promise<void> {
    const channel = this.#rpc.getChannel();
    const sockets = new OpenedSockets();
    return new Promise((resolve, reject) => {
      let over = false;
      let unexplained: (() => void) | undefined;
      const end = () => {
        this.#ends.delete(closed);
        stopTimer();
        over = true;
        unexplained?.();
      };
      const fail = (error: FanoutError) => {
        if (over) return;
        end();
        sockets.abandon();
        this.#shutDown();
        reject(error);
      };
      const closed = () => fail(this.#closed!);
      const stopTimer = new Deadline(timeout).onReached(() => {
        fail(unavailable(`${this.address}: no connection within ${timeout / 1000} s`));
      });
      const check = () => {
        if (over) return;
        const state = channel.getConnectivityState(false);
        if (state === connectivityState.READY) {
          end();
          sockets.keep();
          channel.watchConnectivityState(state, Infinity, () => this.#lost());
          resolve();
          return;
        }
        channel.watchConnectivityState(state, Infinity, check);
        if (state !== connectivityState.TRANSIENT_FAILURE) return;
        unexplained ??= this.#explain((why) => fail(unavailable(`${this.address}: ${why}`)));
      };
      this.#ends.add(closed);
      sockets.during(() => channel.getConnectivityState(true));
      check();
    });
  }

  /**
   * #explain finds out why the channel cannot connect. gRPC says so only in the status of a call, so it makes one. The returned
   * function ends it: it would be sent if the channel could connect after all.
   */
  #explain(explained: (why: string) => void): () => void {
    const call = this.#rpc.getChannel().createCall('/', Infinity, null, null, null);
    call.start(new Metadata(), {
      onReceiveMetadata: () => {},
      onReceiveMessage: () => {},
      onReceiveStatus: ({ details }) => explained(details),
    });
    return () => call.cancelWithStatus(status.CANCELLED, '');
  }

  /** #lost gives the channel up when it has lost its connection: gRPC would connect again, with the old certificate. */
  #lost(): void {
    if (this.#shut) return;
    this.#owner.failed(this);
    // Streams go on if the server only wants no new ones. Calls that wait for a connection fail.
    process.nextTick(() => this.#shutDown());
  }

  #begin(): () => void {
    this.#requests++;
    let ended = false;
    return () => {
      if (ended) return;
      ended = true;
      this.#requests--;
      this.#closeIfUnused();
    };
  }

  #closeIfUnused(): void {
    if ((this.#retired && this.#requests === 0) || this.#closed) this.#shutDown();
  }

  #shutDown(): void {
    if (!this.#shut) {
      this.#shut = true;
      this.#rpc.close();
    }
    if (this.#requests === 0 || this.#closed) this.#owner.gone(this);
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

  /** #open returns the metadata of a request that can be sent now. */
  async #open(own?: RequestMetadata): Promise<Metadata> {
    const metadata = await this.#settings.metadata(own);
    if (this.#closed) throw this.#closed;
    if (this.#shut) throw new UnsentError();
    return metadata;
  }

  /**
   * watch begins a watch: with Subscribe, or with Watch if the server does not know Subscribe, or if the watch has
   * metadata of its own.
   */
  watch(request: WatchStart, sink: WatchSink, metadata?: RequestMetadata): OpenWatch {
    if (metadata || !this.#owner.subscribe.use()) return this.#watchAlone(request, sink, metadata);
    this.#stream ??= this.#subscribe();
    let alone: OpenWatch | undefined;
    let stopped = false;
    const shared = this.#stream.watch(request, {
      asked: () => sink.asked(),
      message: (message, size) => sink.message(message, size),
      end: (error, unsupported) => {
        if (!unsupported || stopped || this.#closed) sink.end(error);
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
        const metadata = await this.#open();
        const { path, serialize, deserialize } = methods.subscribe;
        const call: SubscribeCall = this.#rpc.makeBidiStreamRequest(path, serialize, deserialize, metadata);
        call.write({ request: { case: 'subscriber', value: subscriberOf(this.#settings) } });
        return call;
      },
      (error, unsupported) => {
        if (this.#stream === stream) this.#stream = undefined;
        left();
        if (unsupported) {
          this.#owner.subscribe.failed();
          this.#owner.log.info('the server or a proxy lacks Subscribe: each watch uses a stream of its own', { server: this.address, error });
        } else {
          this.requestFailed(error);
        }
      },
      (signal) =>
        this.call(methods.report, {}, { signal, deadline: new Deadline(otherTimeout) }).then(
          () => true,
          (error: unknown) => !noAnswer.has(errorOfCall(error).code),
        ),
    );
    return stream;
  }

  /** requestFailed gives the connection or its server up if a request has failed with an error that others would get, too. */
  requestFailed(error: FanoutError | undefined): void {
    if (error?.code !== status.UNAVAILABLE) return;
    // An error with a reason comes from a server that works, but another one may be better off.
    if (error.reason === undefined || (error.reason === 'DRAINING' && this.#owner.hasOthers)) this.#owner.failed(this);
    else this.#owner.refused(this);
  }

  /** watchFailed goes to another server if that may do for the watch what this one did not. */
  watchFailed(error: FanoutError | undefined): void {
    if (!error || sameElsewhere.has(error.code)) return;
    if (error.code === status.UNAVAILABLE) this.requestFailed(error);
    else this.#owner.refused(this);
  }

  #watchAlone(request: WatchStart, sink: WatchSink, metadata?: RequestMetadata): OpenWatch {
    const left = this.#begin();
    let works = false;
    sink.asked();
    const watch = openWatchCall(
      async () => {
        const all = await this.#open(metadata);
        const { path, serialize, deserialize } = methods.watch;
        const named = { ...request, subscriber: subscriberOf(this.#settings) } as WatchStart;
        const call: WatchCallStream = this.#rpc.makeServerStreamRequest(path, serialize, deserialize, named, all);
        return call;
      },
      (name, report) =>
        this.call(methods.report, { watch: name, ...report }, { deadline: new Deadline(reportTimeout), metadata }).then(
          () => undefined,
          errorOfCall,
        ),
      {
        message: (message, size) => {
          if (!works) this.#owner.subscribe.watchWorked();
          works = true;
          sink.message(message, size);
        },
        end: (error) => {
          this.#ends.delete(end);
          this.requestFailed(error);
          sink.end(error);
        },
      },
      () => {
        this.#ends.delete(end);
        if (!works) this.#owner.subscribe.watchFailed();
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
    void this.#open().then(
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

  /** call sends a request and waits for its response. It throws an UnsentError if the connection was lost before. */
  async call<I extends DescMessage, O extends DescMessage>(
    method: Method<I, O>,
    request: MessageInitShape<I>,
    { signal, deadline, metadata: own, sent }: CallSettings,
  ): Promise<MessageShape<O>> {
    const left = this.#begin();
    try {
      const metadata = await limited(this.#open(own), { signals: [signal, this.#owner.closing], deadline });
      signal?.throwIfAborted();
      if (this.#closed) throw this.#closed;
      if (this.#shut) throw new UnsentError();
      if (deadline.left <= 0) throw deadlineError();
      return await new Promise((resolve, reject) => {
        const releases: (() => void)[] = [];
        const settle = () => releases.forEach((release) => release());
        const { path, serialize, deserialize } = method;
        const call = this.#rpc.makeUnaryRequest<MessageInitShape<I>, Sized<MessageShape<O>>>(
          path,
          serialize,
          deserialize,
          request,
          metadata,
          // The server gets the deadline, too.
          Number.isFinite(deadline.left) ? { deadline: Date.now() + deadline.left } : {},
          (error, response) => {
            settle();
            if (response) {
              resolve(response.message);
              return;
            }
            const failure = errorOfCall(error);
            this.requestFailed(failure);
            const late = failure.code === status.CANCELLED && deadline.left < clockDifference;
            reject(late ? deadlineError() : failure);
          },
        );
        sent?.();
        const giveUp = (error: Error) => {
          settle();
          call.cancel();
          reject(error);
        };
        const end = () => giveUp(this.#closed!);
        this.#ends.add(end);
        releases.push(() => this.#ends.delete(end));
        if (signal) releases.push(onAbort(signal, () => giveUp(signal.reason as Error)));
        releases.push(deadline.onReached(() => giveUp(deadlineError())));
      });
    } finally {
      left();
    }
  }
}

function subscriberOf({ subscriber: { instance, labels } }: ConnectionSettings): { instance: string; labels: Record<string, string> } {
  return { instance: instance ?? '', labels: { ...labels } };
}
