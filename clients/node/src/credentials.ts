// How a client proves who it is, and how it encrypts.

import { isIP } from 'node:net';
import { hostname } from 'node:os';
import { checkServerIdentity, type PeerCertificate } from 'node:tls';
import { credentials, Metadata, type ChannelCredentials, type ChannelOptions, type Interceptor } from '@grpc/grpc-js';
import type { Address } from './address.js';
import type { ClientOptions, SubscriberOptions, TLSOptions } from './client_options.js';
import { longestTimer } from './deadline.js';
import { errorOfCall, unavailable } from './errors.js';
import type { RequestMetadata } from './options.js';

/** The least interval of pings in milliseconds that servers permit. */
const leastKeepalive = 10_000;
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

interface Encryption {
  readonly credentials: ChannelCredentials;
  /** The name of the server for TLS, if it is not the host. */
  readonly serverName?: string | undefined;
}

/** What a client calls a server that has an address instead of a name. TLS has no names for addresses. */
const nameOfAddresses = 'address.invalid';

function encryptionOf({ ca, cert, key, serverName }: TLSOptions, host: string | undefined): Encryption {
  const pem = (content: string | Uint8Array | undefined) => (content === undefined ? null : Buffer.from(content));
  const name = serverName ?? host ?? '';
  if (isIP(name) === 0) return { credentials: credentials.createSsl(pem(ca), pem(key), pem(cert)), serverName };
  const identity = { checkServerIdentity: (_: string, shown: PeerCertificate) => checkServerIdentity(name, shown) };
  return { credentials: credentials.createSsl(pem(ca), pem(key), pem(cert), identity), serverName: nameOfAddresses };
}

/** Credentials makes the settings of connections from the options of a client. */
export class Credentials {
  readonly #options: ClientOptions;
  readonly #servers: readonly Address[];
  readonly #encryption: (server: number) => Encryption;
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
      this.#encryption = () => plaintext;
    } else if (typeof tls === 'function') {
      this.#encryption = (server) => encryptionOf(tls(), servers[server]?.host);
    } else {
      const fixed = servers.map(({ host }) => encryptionOf(tls ?? {}, host));
      this.#encryption = (server) => fixed[server]!;
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
    let encryption: Encryption;
    try {
      encryption = this.#encryption(server);
    } catch (error) {
      throw unavailable(`no settings of TLS: ${errorOfCall(error).message}`, error);
    }
    return {
      credentials: encryption.credentials,
      options: {
        // Each connection has a TCP connection of its own. The default would share a dead one.
        'grpc.use_local_subchannel_pool': 1,
        // One of the addresses of a name, at random.
        'grpc.service_config': JSON.stringify({ loadBalancingConfig: [{ pick_first: { shuffleAddressList: true } }] }),
        'grpc.service_config_disable_resolution': 1,
        'grpc.max_receive_message_length': maxMessageBytes,
        'grpc.keepalive_time_ms': Math.min(Math.max(keepalive, leastKeepalive), longestTimer),
        'grpc.keepalive_timeout_ms': 10_000,
        'grpc.keepalive_permit_without_calls': 1,
        'grpc.primary_user_agent': 'fanoutd-client-node',
        ...(this.#servers[server]!.local && { 'grpc.enable_http_proxy': 0 }),
        ...(encryption.serverName !== undefined && { 'grpc.ssl_target_name_override': encryption.serverName }),
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
      // The issuer of tokens may be back soon.
      throw unavailable(`no token: ${errorOfCall(error).message}`, error);
    }
    if (value !== undefined) metadata.set('authorization', `Bearer ${value}`);
    for (const [name, entry] of Object.entries(own)) metadata.set(name, typeof entry === 'string' ? entry : Buffer.from(entry));
    return metadata;
  }
}
