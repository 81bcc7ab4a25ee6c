// Formatting of numbers, times and strings.

const numbers = new Intl.NumberFormat('en', { maximumFractionDigits: 0 });
const tenths = new Intl.NumberFormat('en', { maximumFractionDigits: 1 });

// Shown for unknown values.
export const unknown = '–';

const known = (n) => n !== undefined && n !== null && !Number.isNaN(n);

export const count = (n) => (known(n) ? numbers.format(n) : unknown);

// plural returns a count with its noun, for nouns with a regular plural.
export const plural = (n, name) => `${count(n)} ${name}${Number(n) === 1 ? '' : 's'}`;

// rate formats a number per second.
export const rate = (n) => (known(n) ? (n < 100 ? tenths : numbers).format(n) : unknown);

export function bytes(n) {
  if (!known(n)) return unknown;
  let size = Number(n);
  for (const unit of ['B', 'KiB', 'MiB', 'GiB']) {
    if (size < 1024 || unit === 'GiB') return `${(size < 10 && unit !== 'B' ? tenths : numbers).format(size)} ${unit}`;
    size /= 1024;
  }
}

// seconds parses a duration of the protocol, such as "1.500s".
export const seconds = (duration) => (duration === undefined ? undefined : parseFloat(duration));

// span formats a duration given in seconds.
export function span(s) {
  if (!known(s)) return unknown;
  if (s < 0.001) return '0 s';
  if (s < 1) return `${numbers.format(s * 1000)} ms`;
  if (s < 10) return `${tenths.format(s)} s`;
  if (s < 120) return `${numbers.format(s)} s`;
  if (s < 2 * 3600) return `${numbers.format(s / 60)} min`;
  if (s < 48 * 3600) return `${numbers.format(s / 3600)} h`;
  return `${numbers.format(s / 86400)} d`;
}

export const clock = (date) => date.toLocaleTimeString('en-GB');

export const dateAndTime = (date) => date.toLocaleString('en-GB', { dateStyle: 'medium', timeStyle: 'medium' });

// shorten truncates a string between characters.
export const shorten = (text, most) => (text.length <= most ? text : `${text.slice(0, most).replace(/[\ud800-\udbff]$/, '')}…`);
