// Requests to the server that has sent this page: all of them read, and all of them
// are the public API (docs/http.md). Paths are relative, so that the page works
// behind a proxy that puts it elsewhere.

// Where the token is while the tab is open.
const place = 'fanoutd-token';

export const token = {
  get: () => sessionStorage.getItem(place) ?? '',
  set: (text) => sessionStorage.setItem(place, text),
  forget: () => sessionStorage.removeItem(place),
};

// Codes of gRPC, as they are in errors.
export const code = { invalid: 3, notFound: 5, denied: 7, outOfRange: 11, unimplemented: 12, unauthenticated: 16 };

// Refusal is an error that the server has answered with: a google.rpc.Status.
export class Refusal extends Error {
  constructor(status, sent, http) {
    super(status.message || `The server answers with HTTP status ${http}`);
    this.token = sent; // that was refused
    this.code = status.code ?? (http === 401 ? code.unauthenticated : http === 403 ? code.denied : undefined);
    this.reason = status.details?.find((d) => d.reason)?.reason;
  }

  // wantsToken says whether another token may help.
  get wantsToken() {
    return this.code === code.unauthenticated || this.code === code.denied;
  }
}

// explain says what has happened in a sentence.
export function explain(error) {
  if (error instanceof Refusal) return error.reason ? `${error.message} (${error.reason})` : error.message;
  if (error.name === 'TimeoutError') return 'The server does not answer';
  if (error instanceof TypeError) return 'The server cannot be reached'; // so says fetch
  return error.message;
}

// open sends a request and returns the response if it is a good one, and the token
// that was sent.
async function open(path, parameters, signal) {
  const url = `${path}?${new URLSearchParams(parameters)}`;
  const sent = token.get();
  const headers = sent ? { Authorization: `Bearer ${sent}` } : {};
  const response = await fetch(url, { headers, signal, cache: 'no-store', credentials: 'same-origin', redirect: 'error' });
  if (response.ok) return { response, sent };
  let status = {};
  try {
    const body = await response.json();
    status = body.error ?? body; // a watch that cannot begin has a line for it
  } catch {
    // It is not from fanoutd but from something before it.
  }
  throw new Refusal(status, sent, response.status);
}

// get returns the answer to a request.
export async function get(path, parameters) {
  const { response } = await open(path, parameters, AbortSignal.timeout(10_000));
  return response.json();
}

// lines returns the values of a stream of lines of JSON.
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

// watch returns the messages of a watch. It throws when the watch does not end
// well, and a TimeoutError when nothing comes for silence milliseconds.
export async function* watch(resource, parameters, silence, signal) {
  const quiet = new AbortController();
  let timer;
  const heard = () => {
    clearTimeout(timer);
    timer = setTimeout(() => quiet.abort(new DOMException('silence', 'TimeoutError')), silence);
  };
  try {
    heard();
    const { response, sent } = await open(`v1/resources/${encodeURIComponent(resource)}/watch`, parameters, AbortSignal.any([signal, quiet.signal]));
    for await (const line of lines(response)) {
      heard();
      if (line.error) throw new Refusal(line.error, sent);
      yield line.result;
    }
  } finally {
    clearTimeout(timer);
    quiet.abort(); // who does not want any more of it
  }
}
