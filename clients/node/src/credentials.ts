// How a client proves who it is, and how it encrypts.

import { hostname } from 'node:os';
import { credentials, Metadata, type ChannelCredentials, type ChannelOptions, type Interceptor } from '@grpc/grpc-js';
import type { Address } from './address.js';
import type { ClientOptions, SubscriberOptions, TLSOptions } from './client_options.js';
import { errorOfCall, unavailable } from './errors.js';
import type { RequestMetadata } from './options.js';

/** The least interval of pings in milliseconds that servers permit, and the longest of a timer. */
const leastKeepalive = 10_000;
const longestKeepalive = 2 ** 31 - 1;
/** The largest message that a client accepts. */
const maxMessageBytes = 64 << 20;

/** What a connection needs. */
export interface ConnectionSettings {
  readonly credentials: ChannelCredentials;
  readonly options: ChannelOptions & { readonly interceptors: Interceptor[] };
  readonly subscriber: SubscriberOptions;
  /** Returns the metadata of a request, with the token. */
  metadata(own?: RequestMetadata): Promise<Metadata>;
}

type TLS = Pick<ConnectionSettings, 'credentials'> & { readonly serverName?: string | undefined };

function tlsOf({ ca, cert, key, serverName }: TLSOptions): TLS {
  const pem = (content: string | Uint8Array | undefined) => (content === undefined ? null : Buffer.from(content));
  return { credentials: credentials.createSsl(pem(ca), pem(key), pem(cert)), serverName };
}

/** Credentials makes the settings of connections from the options of a client. */
export class Credentials {
  readonly #options: ClientOptions;
  readonly #servers: readonly Address[];
  readonly #tls: () => TLS;
  /** Whether connections use TLS. */
  readonly encrypts: boolean;

  constructor(options: ClientOptions, servers: readonly Address[]) {
    this.#options = options;
    this.#servers = servers;
    const { insecure, tls, token } = options;
    if (insecure && tls) throw new TypeError('settings of TLS and insecure exclude each other');
    const local = servers.every((server) => server.local);
    this.encrypts = !insecure && (tls !== undefined || !local);
    if (!this.encrypts) {
      if (token !== undefined && !local) throw new TypeError('a token is not sent in plaintext to another machine: use TLS');
      const plaintext = { credentials: credentials.createInsecure() };
      this.#tls = () => plaintext;
    } else if (typeof tls === 'function') {
      this.#tls = () => tlsOf(tls());
    } else {
      const fixed = tlsOf(tls ?? {});
      this.#tls = () => fixed;
    }
  }

  /** Whether later requests may have another token or certificate. */
  get renewable(): boolean {
    return typeof this.#options.token === 'function' || this.certificateRenewable;
  }

  /** Whether later connections may have another certificate. */
  get certificateRenewable(): boolean {
    return typeof this.#options.tls === 'function';
  }

  /** settingsOf returns the settings of a connection to a server. */
  settingsOf(server: number): ConnectionSettings {
    const { subscriber, keepalive = 15_000, interceptors = [], channelOptions } = this.#options;
    let tls: TLS;
    try {
      tls = this.#tls();
    } catch (error) {
      throw unavailable(`no settings of TLS: ${errorOfCall(error).message}`, error);
    }
    return {
      credentials: tls.credentials,
      options: {
        // Each connection has a TCP connection of its own. The default would share a dead one.
        'grpc.use_local_subchannel_pool': 1,
        // One of the addresses of a name, at random.
        'grpc.service_config': JSON.stringify({ loadBalancingConfig: [{ pick_first: { shuffleAddressList: true } }] }),
        'grpc.service_config_disable_resolution': 1,
        'grpc.max_receive_message_length': maxMessageBytes,
        'grpc.keepalive_time_ms': Math.min(Math.max(keepalive, leastKeepalive), longestKeepalive),
        'grpc.keepalive_timeout_ms': 10_000,
        'grpc.keepalive_permit_without_calls': 1,
        'grpc.primary_user_agent': 'fanoutd-client-node',
        ...(this.#servers[server]!.local && { 'grpc.enable_http_proxy': 0 }),
        ...(tls.serverName !== undefined && { 'grpc.ssl_target_name_override': tls.serverName }),
        ...channelOptions,
        interceptors: [...interceptors],
      },
      subscriber: { ...subscriber, instance: subscriber?.instance ?? `${hostname()}/${process.pid}` },
      metadata: (own) => this.#metadata(own),
    };
  }

  async #metadata(own: RequestMetadata = {}): Promise<Metadata> {
    const { token } = this.#options;
    const metadata = new Metadata();
    let value: string | undefined;
    try {
      value = typeof token === 'function' ? await token() : token;
    } catch (error) {
      // Whoever issues tokens may be back soon.
      throw unavailable(`no token: ${errorOfCall(error).message}`, error);
    }
    if (value !== undefined) metadata.set('authorization', `Bearer ${value}`);
    for (const [name, entry] of Object.entries(own)) metadata.set(name, typeof entry === 'string' ? entry : Buffer.from(entry));
    return metadata;
  }
}
