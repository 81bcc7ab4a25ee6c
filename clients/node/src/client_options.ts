// Options of clients.

import type { ChannelOptions, Interceptor } from '@grpc/grpc-js';
import type { Logger } from './logger.js';
import type { Observer } from './observer.js';

/** How a client proves who it is, and which server it trusts. Certificates and keys have the PEM format. */
export interface TLSOptions {
  /** The certificates of the authorities that the client trusts. Default: those of Node.js. */
  readonly ca?: string | Uint8Array | undefined;
  /** The certificate of the client, followed by intermediate ones. */
  readonly cert?: string | Uint8Array | undefined;
  /** The key of the certificate of the client. */
  readonly key?: string | Uint8Array | undefined;
  /** The name in the certificate of the server. Default: the host of the address. */
  readonly serverName?: string | undefined;
}

/** How a program names itself. Operators see it, and the server does not check it. */
export interface SubscriberOptions {
  /** The instance of the program. Default: the name of the host and the process id. */
  readonly instance?: string | undefined;
  /** Labels, such as the name and the version of the program. */
  readonly labels?: Readonly<Record<string, string>> | undefined;
}

/** Options of a {@link Client}. */
export interface ClientOptions {
  /**
   * Do not encrypt, also to other machines. Only in a protected network. Default: plaintext if all servers are on this
   * machine and there are no settings of TLS, else TLS.
   */
  readonly insecure?: boolean | undefined;
  /** The settings of TLS. A function is called for each new connection, so that certificates can be renewed. */
  readonly tls?: TLSOptions | (() => TLSOptions) | undefined;
  /**
   * A token that is sent with each request. A function is called for each request, and again if the server refuses
   * a token.
   */
  readonly token?: string | (() => string | Promise<string>) | undefined;
  /** How the program names itself. */
  readonly subscriber?: SubscriberOptions | undefined;
  /**
   * The interval in milliseconds of pings, also while no request is open. Pings keep proxies from cutting idle
   * connections, and a server that does not answer within 10 s counts as lost. At least 10 s; default: 15 s.
   */
  readonly keepalive?: number | undefined;
  /** Gets what no caller gets, such as interruptions of watches. `console` is a logger. Default: no logs. */
  readonly logger?: Logger | undefined;
  /** Hooks for metrics. */
  readonly observer?: Observer | undefined;
  /** Interceptors of grpc-js, such as those of OpenTelemetry. They see every request and stream. */
  readonly interceptors?: readonly Interceptor[] | undefined;
  /** Options of the channels of grpc-js. They override those of the client. */
  readonly channelOptions?: ChannelOptions | undefined;
}
