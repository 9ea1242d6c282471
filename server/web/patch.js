// patchChildren(): makes the children of an element what they should be, and keeps those that are so already. What has
// the focus keeps it, a selection stays, and a table that was scrolled stays where it is.

function patchAttributes(old, wanted) {
  for (const {name} of [...old.attributes]) if (!wanted.hasAttribute(name)) old.removeAttribute(name);
  for (const {name, value} of wanted.attributes) {
    if (name === "style") old.style.cssText = wanted.style.cssText;  // the page's policy allows no attribute
    else if (old.getAttribute(name) !== value) old.setAttribute(name, value);
  }
}

// Whether `old` could be made the same as `wanted`.
function patch(old, wanted) {
  if (old.nodeType !== wanted.nodeType || old.nodeName !== wanted.nodeName) return false;
  if (old.nodeType === Node.TEXT_NODE) {
    // What is selected of a text stays selected while more comes behind it.
    if (wanted.data.startsWith(old.data)) old.appendData(wanted.data.slice(old.length));
    else old.data = wanted.data;
    return true;
  }
  if (old.dataset.kept !== undefined) return true;
  patchAttributes(old, wanted);
  patchChildren(old, [...wanted.childNodes]);
  return true;
}

// `first`: so many children in front stay as they are. Listeners of elements that stay are those that they had: what a
// listener needs, it must find in the page. An element with data-kept is left as it is.
export function patchChildren(place, wanted, first = 0) {
  let at = place.childNodes[first] ?? null;
  for (const node of wanted) {
    const next = at?.nextSibling ?? null;
    if (!at) place.append(node);
    else if (!patch(at, node)) at.replaceWith(node);
    at = next;
  }
  while (at) {
    const next = at.nextSibling;
    at.remove();
    at = next;
  }
}
