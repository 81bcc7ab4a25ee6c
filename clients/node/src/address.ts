// Addresses of servers.

import { BlockList, isIP } from 'node:net';

/** An address of a server. */
export interface Address {
  /** What grpc-js connects to. */
  readonly target: string;
  /** The host, or the first one of several. Undefined for a socket of this machine. */
  readonly host: string | undefined;
  /** The server is on this machine. */
  readonly local: boolean;
}

const loopback = new BlockList();
loopback.addSubnet('127.0.0.0', 8, 'ipv4');
loopback.addAddress('::1', 'ipv6');

function isLocalHost(host: string): boolean {
  if (host === 'localhost') return true;
  const family = isIP(host);
  return family !== 0 && loopback.check(host, family === 6 ? 'ipv6' : 'ipv4');
}

/** addressOf reads `host:port` or a target of gRPC, such as `dns:///host:port` or `unix:///run/fanoutd.sock`. */
export function addressOf(text: string): Address {
  const refuse = (why: string) => new TypeError(`address ${JSON.stringify(text)} ${why}`);
  if (/^https?:/.test(text)) throw refuse('is an HTTP URL; want host:port');
  if (text.startsWith('unix:')) return { target: text, host: undefined, local: true };
  const scheme = /^(?:(?:dns|ipv4|ipv6):(?:\/\/[^/]*\/)?|[a-z][a-z0-9+.-]*:\/\/[^/]*\/)/.exec(text)?.[0] ?? '';
  const hosts = text
    .slice(scheme.length)
    .split(',')
    .map((hostPort) => {
      const [, bracketed, plain, port] = /^(?:\[([^\]]+)\]|([^:[\]]+))(?::(\d+))?$/.exec(hostPort) ?? [];
      const host = bracketed ?? plain;
      if (host === undefined) throw refuse('is not host:port');
      if (port === undefined) throw refuse('has no port');
      if (Number(port) > 65_535) throw refuse('has a port above 65535');
      return host;
    });
  return { target: text, host: hosts[0], local: hosts.every(isLocalHost) };
}
