// Options of clients.

/** How a client proves who it is, and which server it trusts. Certificates and keys have the PEM format. */
export interface TLSOptions {
  /** The certificates of the authorities that the client trusts. Default: those of Node.js. */
  readonly ca?: string | Uint8Array;
  /** The certificate of the client, followed by intermediate ones. */
  readonly cert?: string | Uint8Array;
  /** The key of the certificate of the client. */
  readonly key?: string | Uint8Array;
  /** The name in the certificate of the server. Default: the host of the address. */
  readonly serverName?: string;
}

/** How a program names itself. Operators see it, and the server does not check it. */
export interface SubscriberOptions {
  /** The instance of the program. Default: the name of the host and the process id. */
  readonly instance?: string;
  /** Labels, such as the name and the version of the program. */
  readonly labels?: Readonly<Record<string, string>>;
}

/** Options of a {@link Client}. */
export interface ClientOptions {
  /** Do not encrypt. Only for servers on the same machine or in a protected network. Default: TLS. */
  readonly insecure?: boolean;
  /** The settings of TLS. A function is called for each new connection, so that certificates can be renewed. */
  readonly tls?: TLSOptions | (() => TLSOptions);
  /**
   * A token that is sent with each request. A function is called for each request, and again if the server refuses
   * a token.
   */
  readonly token?: string | (() => string | Promise<string>);
  /** How the program names itself. */
  readonly subscriber?: SubscriberOptions;
  /**
   * The interval in milliseconds of pings, also while no request is open. Pings keep proxies from cutting idle
   * connections, and a server that does not answer within 10 s counts as lost. At least 10 s; default: 30 s.
   */
  readonly keepalive?: number;
}
