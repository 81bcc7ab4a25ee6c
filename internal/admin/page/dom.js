// DOM helpers. Strings from the server become text nodes and attribute values, never
// markup.

export const $ = (id) => document.getElementById(id);

// el creates an element with attributes and children, which are elements or strings.
export function el(name, attributes = {}, ...children) {
  const node = document.createElement(name);
  for (const [key, value] of Object.entries(attributes)) node.setAttribute(key, value);
  node.append(...children);
  return node;
}

// say sets the text of an element. It leaves an unchanged text alone, so that a selection
// survives.
export function say(node, text) {
  if (node.textContent !== text) node.textContent = text;
}

// complain shows an error, or hides the element if there is none.
export function complain(node, text) {
  say(node, text || '');
  node.hidden = !text;
}

// keyed makes the children of parent match items, in order. It updates existing elements
// instead of creating them again.
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

// options sets the options of a select, after those without a key, and keeps the selected
// one.
export function options(select, names) {
  const fixed = Array.from(select.options).filter((o) => !o.dataset.key);
  const chosen = select.value;
  if (chosen && !fixed.some((o) => o.value === chosen) && !names.includes(chosen)) names = [...names, chosen];
  if (select.options.length === fixed.length + names.length && names.every((n, i) => select.options[fixed.length + i].value === n)) return;
  select.replaceChildren(...fixed, ...names.map((name) => el('option', { value: name, 'data-key': name }, name)));
  if (names.includes(chosen) || fixed.some((o) => o.value === chosen)) select.value = chosen;
}

// onlyChosen removes the options of a select that have a key, except the selected one.
export function onlyChosen(select) {
  // Without a selected option, a browser selects another one at each removal.
  const others = Array.from(select.options).filter((o) => o.dataset.key && !o.selected);
  for (const o of others) o.remove();
}

// offer adds an option if it is missing.
export function offer(select, name) {
  if (!Array.from(select.options, (o) => o.value).includes(name)) select.append(el('option', { value: name, 'data-key': name }, name));
}

// choose selects an option, and adds it if it is missing.
export function choose(select, name) {
  offer(select, name);
  select.value = name;
}
