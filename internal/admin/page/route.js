// Places inside resources, as fragments of the address: #/config/shop/ is the folder shop of
// the resource config, and #/config/shop/limits an object.

// link returns the fragment of a place. The path of a folder is empty or ends with a slash.
export const link = (resource, path = '') => `#/${[resource, ...path.split('/')].map(encodeURIComponent).join('/')}`;

// place returns the resource and the path that the address names, if it names a place.
export function place() {
  if (!location.hash.startsWith('#/')) return undefined;
  try {
    const [resource, ...path] = location.hash.slice(2).split('/').map(decodeURIComponent);
    return resource ? { resource, path: path.join('/') } : undefined;
  } catch {
    return undefined; // not written by link
  }
}

// go changes the address, which shows the place.
export function go(resource, path) {
  const fragment = link(resource, path);
  if (location.hash === fragment) window.dispatchEvent(new HashChangeEvent('hashchange'));
  else location.hash = fragment;
}
