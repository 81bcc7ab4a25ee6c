// Requests to the server of this page. They use the public API
// (docs/reference/http.md). Paths are relative, so the page works behind a proxy that moves it.

// The token is kept while the tab is open.
const place = 'fanoutd-token';

export const token = {
  get: () => sessionStorage.getItem(place) ?? '',
  set: (text) => sessionStorage.setItem(place, text),
  forget: () => sessionStorage.removeItem(place),
};

// gRPC status codes.
export const code = { invalid: 3, notFound: 5, denied: 7, outOfRange: 11, unimplemented: 12, unavailable: 14, unauthenticated: 16 };

// Refusal is an error answer of the server: a google.rpc.Status.
export class Refusal extends Error {
  constructor(status, sent, http) {
    super(status.message || `The server answers with HTTP status ${http}`);
    this.token = sent; // the token that was refused
    this.code = status.code ?? (http === 401 ? code.unauthenticated : http === 403 ? code.denied : undefined);
    const info = status.details?.find((d) => d.reason);
    this.reason = info?.reason;
    this.metadata = info?.metadata ?? {};
    this.violations = status.details?.find((d) => d.fieldViolations)?.fieldViolations ?? [];
  }

  // wantsToken reports whether another token may help.
  get wantsToken() {
    return this.code === code.unauthenticated || this.code === code.denied;
  }
}

// Outdated is the error of a request whose answer is for a token that the visitor has replaced meanwhile.
export class Outdated extends Error {}

// isAway reports whether an error means that the server cannot answer now.
export const isAway = (error) => !(error instanceof Refusal) || error.code === undefined || error.code === code.unavailable;

// explain describes an error in a sentence.
export function explain(error) {
  if (error instanceof Refusal) return error.reason ? `${error.message} (${error.reason})` : error.message;
  if (error.name === 'TimeoutError') return 'The server does not answer';
  if (error instanceof TypeError) return 'The server cannot be reached'; // thrown by fetch
  return error.message;
}

// open sends a request. It returns the response if that is successful, and the token that
// it sent.
async function open(path, parameters, signal, more = {}) {
  const { origin, ...init } = more; // the origin of another server
  const url = `${origin ? `${origin}/` : ''}${path}?${new URLSearchParams(parameters)}`;
  const sent = token.get();
  const headers = { ...init.headers, ...(sent && { Authorization: `Bearer ${sent}` }) };
  const response = await fetch(url, { ...init, headers, signal, cache: 'no-store', credentials: origin ? 'omit' : 'same-origin', redirect: 'error' });
  if (response.ok) return { response, sent };
  let status = {};
  try {
    const body = await response.json();
    status = body.error ?? body; // a failed watch answers with a line
  } catch {
    // The answer comes from a proxy in front of fanoutd.
  }
  throw new Refusal(status, sent, response.status);
}

// get returns the JSON answer to a request, of another server if origin names it. It throws Outdated if the
// token has changed meanwhile: what one token may see is not shown to another.
export async function get(path, parameters, { origin, patience = 10_000 } = {}) {
  const sent = token.get();
  let answer;
  try {
    const { response } = await open(path, parameters, AbortSignal.timeout(patience), { origin });
    answer = await response.json();
  } catch (error) {
    throw sent === token.get() ? error : new Outdated();
  }
  if (sent !== token.get()) throw new Outdated();
  return answer;
}

// send sends a request that writes, and returns its JSON answer.
export async function send(method, path, parameters, body) {
  const more = body ? { method, body: JSON.stringify(body), headers: { 'Content-Type': 'application/json' } } : { method };
  const { response } = await open(path, parameters || {}, AbortSignal.timeout(10_000), more);
  return response.json();
}

// rights returns the verbs that the visitor may apply to an object.
export async function rights(resource, key) {
  const answer = await get('v1/rights', { resource, key });
  return answer.rights;
}

// read is get for objects. If etcd does not answer, it returns what the server knows, which may
// be old.
export async function read(path, parameters) {
  try {
    return await get(path, parameters);
  } catch (error) {
    if (error.code !== code.unavailable) throw error;
    return { ...(await get(path, { ...parameters, 'consistency.any': true })), old: true };
  }
}

// of returns the path of a resource, or of something in it.
export const of = (resource, ...rest) => ['v1/resources', ...[resource, ...rest].map(encodeURIComponent)].join('/');

// lines yields the values of a stream of JSON lines.
async function* lines(response) {
  const reader = response.body.pipeThrough(new TextDecoderStream()).getReader();
  let rest = '';
  for (;;) {
    const { value, done } = await reader.read();
    if (done) return;
    const parts = value.split('\n');
    parts[0] = rest + parts[0];
    rest = parts.pop();
    for (const part of parts) if (part) yield JSON.parse(part);
  }
}

// watch yields the messages of a watch. It throws the error that ends the watch, or a
// TimeoutError if nothing arrives for silence milliseconds.
export async function* watch(resource, parameters, silence, signal) {
  const quiet = new AbortController();
  let timer;
  const heard = () => {
    clearTimeout(timer);
    timer = setTimeout(() => quiet.abort(new DOMException('silence', 'TimeoutError')), silence);
  };
  try {
    heard();
    const { response, sent } = await open(of(resource, 'watch'), parameters, AbortSignal.any([signal, quiet.signal]));
    for await (const line of lines(response)) {
      heard();
      if (line.error) throw new Refusal(line.error, sent);
      yield line.result;
    }
  } finally {
    clearTimeout(timer);
    quiet.abort(); // the caller stopped reading
  }
}
