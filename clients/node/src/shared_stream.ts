// Many watches on one stream.

import type { MessageInitShape } from '@bufbuild/protobuf';
import { status, type ClientDuplexStream } from '@grpc/grpc-js';
import { onEnd } from './call_end.js';
import type { OpenWatch, Report, WatchSink, WatchStart } from './carrier.js';
import { errorOfCall, errorOfStatus, FanoutError, unavailable } from './errors.js';
import type { SubscribeRequestSchema, SubscribeResponse, SubscribeResponse_Entry } from './gen/fanout/v1/fanout_pb.js';
import type { Sized } from './methods.js';

type Request = MessageInitShape<typeof SubscribeRequestSchema>;
export type SubscribeCall = ClientDuplexStream<Request, Sized<SubscribeResponse>>;

/** Some proxies wait for the end of the requests before they answer. Then Subscribe does not work. */
const headerTimeout = 5000;

/** Receives what a server sends for a watch, and whether the stream has ended because Subscribe is not supported. */
export interface SharedSink {
  asked: WatchSink['asked'];
  message: WatchSink['message'];
  end(error: FanoutError | undefined, unsupported: boolean): void;
}

/**
 * SharedStream is a stream of Subscribe. It reads at once and never waits for a watch, so that a slow watch does
 * not delay others. The stream ends with its last watch.
 */
export class SharedStream {
  readonly #ended: (error: FanoutError | undefined, unsupported: boolean) => void;
  readonly #answersOther: (signal: AbortSignal) => Promise<boolean>;
  readonly #watches = new Map<bigint, SharedSink | undefined>(); // undefined: stopped, its id is not free yet
  readonly #free: bigint[] = [];
  #next = 1n;
  #live = 0;
  #over = false;
  #call: SubscribeCall | undefined;
  #headerTimer: NodeJS.Timeout | undefined;
  #header = false; // the server has answered
  readonly #headerDecided = new AbortController(); // by the header or the end
  // What waits to be written: each watch has at most a start, a stop and a report.
  #requests: Request[] = [];
  readonly #reports = new Map<bigint, Report>();
  #writable = false;

  /**
   * `ended` is called when the stream has ended, before its watches get the end. `answersOther` finds out whether the server
   * answers another request. Its signal is aborted when the answer no longer matters.
   */
  constructor(
    open: () => Promise<SubscribeCall>,
    ended: (error: FanoutError | undefined, unsupported: boolean) => void,
    answersOther: (signal: AbortSignal) => Promise<boolean>,
  ) {
    this.#ended = ended;
    this.#answersOther = answersOther;
    void this.#begin(open);
  }

  async #begin(open: () => Promise<SubscribeCall>): Promise<void> {
    let call: SubscribeCall;
    // The function of a token may never return, and only this stream waits for it.
    this.#headerTimer = setTimeout(() => this.#end(unavailable(`no token within ${headerTimeout / 1000} s`)), headerTimeout);
    try {
      call = await open();
    } catch (error) {
      this.#end(errorOfCall(error));
      return;
    } finally {
      clearTimeout(this.#headerTimer);
    }
    onEnd(call, (error) => this.#end(error));
    if (this.#over) {
      call.cancel();
      return;
    }
    this.#call = call;
    this.#headerTimer = setTimeout(() => void this.#headerOverdue(), headerTimeout);
    call.on('metadata', () => {
      clearTimeout(this.#headerTimer);
      this.#header = true;
      this.#headerDecided.abort();
      for (const sink of this.#watches.values()) sink?.asked();
    });
    call.on('data', ({ message, size }: Sized<SubscribeResponse>) => this.#receive(message, size));
    call.on('drain', () => this.#write(true));
    this.#write(true);
  }

  /**
   * #headerOverdue decides what it means that the header has not come. Time alone proves nothing, because this process or the
   * server may be late. So another request goes the same way. Only if that is answered first, and the header does not come in as
   * much time again, is something wrong with Subscribe.
   */
  async #headerOverdue(): Promise<void> {
    const began = performance.now();
    const answers = await this.#answersOther(this.#headerDecided.signal);
    if (this.#header || this.#over) return;
    if (!answers) {
      this.#end(unavailable('no answer to Subscribe and to other requests'));
      return;
    }
    this.#headerTimer = setTimeout(() => {
      this.#end(new FanoutError({ code: status.UNIMPLEMENTED, message: `no answer to Subscribe within ${headerTimeout / 1000} s` }));
    }, performance.now() - began);
  }

  /** Whether a watch may join. */
  get open(): boolean {
    return !this.#over;
  }

  /** watch starts a watch. */
  watch(request: WatchStart, sink: SharedSink): OpenWatch {
    const watchId = this.#free.pop() ?? this.#next++;
    this.#watches.set(watchId, sink);
    this.#live++;
    if (this.#header) sink.asked(); // until then, only the timeout of the header counts
    this.#send({ request: { case: 'start', value: { watchId, request } } });
    return {
      pausable: false,
      pause: () => {},
      resume: () => {},
      stop: () => {
        if (this.#watches.get(watchId) !== sink) return; // it has ended
        this.#watches.set(watchId, undefined);
        this.#reports.delete(watchId);
        this.#send({ request: { case: 'stop', value: { watchId } } });
        this.#left();
      },
      report: (report) => {
        if (this.#watches.get(watchId) === sink) {
          this.#reports.set(watchId, report);
          this.#write();
        }
        return Promise.resolve(undefined); // there is no answer
      },
    };
  }

  /** cancel ends the stream and all its watches with an error. */
  cancel(error: FanoutError): void {
    this.#end(error);
  }

  #left(): void {
    if (--this.#live === 0) this.#end();
  }

  #send(request: Request): void {
    this.#requests.push(request);
    this.#write();
  }

  #write(drained = false): void {
    if (drained) this.#writable = true;
    while (this.#call && this.#writable && !this.#over) {
      let request = this.#requests.shift();
      if (!request) {
        const [first] = this.#reports;
        if (!first) return;
        const [watchId, report] = first;
        this.#reports.delete(watchId);
        request = { request: { case: 'report', value: { watchId, ...report } } };
      }
      this.#writable = this.#call.write(request);
    }
  }

  #receive({ entries }: SubscribeResponse, size: number): void {
    // Watches share the size of the response by the number of their events.
    const weight = (entry: SubscribeResponse_Entry) =>
      entry.content.case === 'response' ? entry.content.value.events.length + 1 : 1;
    const whole = entries.reduce((sum, entry) => sum + weight(entry), 0);
    for (const entry of entries) {
      const { content, watchIds } = entry;
      if (this.#over) return;
      switch (content.case) {
        case 'response':
          for (const id of watchIds) this.#watches.get(id)?.message(content.value, (size * weight(entry)) / whole);
          break;
        case 'refused':
        case 'ended':
          for (const id of watchIds) {
            this.#endOne(id, content.value.code === 0 ? undefined : errorOfStatus(content.value), content.case === 'refused');
          }
          break;
      }
    }
  }

  #endOne(id: bigint, error: FanoutError | undefined, refused: boolean): void {
    if (!this.#watches.has(id)) return;
    if (refused && error?.reason === 'WATCH_ID_IN_USE') return; // cannot happen: ids are used once at a time
    const sink = this.#watches.get(id);
    this.#watches.delete(id);
    this.#reports.delete(id);
    this.#free.push(id);
    if (!sink) return;
    sink.end(error, false);
    this.#left();
  }

  #end(error?: FanoutError): void {
    if (this.#over) return;
    this.#over = true;
    clearTimeout(this.#headerTimer);
    this.#headerDecided.abort();
    this.#call?.cancel();
    const sinks = [...this.#watches.values()];
    this.#watches.clear();
    this.#requests = [];
    this.#reports.clear();
    const unsupported = error?.code === status.UNIMPLEMENTED;
    this.#ended(error, unsupported);
    for (const sink of sinks) sink?.end(error, unsupported);
  }
}
