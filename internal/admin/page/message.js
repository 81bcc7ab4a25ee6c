// The message of a write: why it was made, for the history.

import { complain } from './dom.js';
import { count } from './format.js';

const most = 1024; // bytes that the server accepts

// tooLong returns why the server refuses a message, or undefined if it does not.
export function tooLong(message) {
  const bytes = new TextEncoder().encode(message).length;
  return bytes > most ? `The message is too long: it has ${count(bytes)} bytes, the limit is ${count(most)}.` : undefined;
}

// limit shows while the visitor types that the message of a field is too long. before returns what the message begins with.
export function limit(input, error, before = () => '') {
  input.addEventListener('input', () => {
    const text = input.value.trim();
    const fault = text && tooLong(before() + text);
    if (fault || input.ariaInvalid) complain(error, fault);
    input.ariaInvalid = fault ? 'true' : null;
  });
}

// because returns the message of a write from its field.
export function because(input) {
  const message = input.value.trim();
  return message ? { message } : {};
}
