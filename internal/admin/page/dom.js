// The few things that the page does with its document. Texts from elsewhere become
// text nodes and values of attributes, never markup.

export const $ = (id) => document.getElementById(id);

// el makes an element with attributes and children, which are elements or texts.
export function el(name, attributes = {}, ...children) {
  const node = document.createElement(name);
  for (const [key, value] of Object.entries(attributes)) node.setAttribute(key, value);
  node.append(...children);
  return node;
}

// say sets the text of an element if it is another one, so that what somebody has
// selected stays so.
export function say(node, text) {
  if (node.textContent !== text) node.textContent = text;
}

// complain shows an error, or hides it if there is none.
export function complain(node, text) {
  say(node, text || '');
  node.hidden = !text;
}

// keyed makes the children of parent those of items, in their order: those that are
// there already are updated, not made again.
export function keyed(parent, items, keyOf, make, update) {
  const left = new Map(Array.from(parent.children, (node) => [node.dataset.key, node]));
  let next = parent.firstElementChild;
  for (const item of items) {
    const key = keyOf(item);
    let node = left.get(key);
    left.delete(key);
    if (!node) {
      node = make(item);
      node.dataset.key = key;
    }
    update(node, item);
    if (node === next) next = next.nextElementSibling;
    else parent.insertBefore(node, next);
  }
  for (const node of left.values()) node.remove();
}

// options makes the names those of a select, behind the options without a key, and
// keeps the choice.
export function options(select, names) {
  const fixed = Array.from(select.options).filter((o) => !o.dataset.key);
  const chosen = select.value;
  if (select.options.length === fixed.length + names.length && names.every((n, i) => select.options[fixed.length + i].value === n)) return;
  select.replaceChildren(...fixed, ...names.map((name) => el('option', { value: name, 'data-key': name }, name)));
  if (names.includes(chosen) || fixed.some((o) => o.value === chosen)) select.value = chosen;
}
