// patchChildren(): makes the children of an element equal to wanted ones. Children that are already equal stay, and so
// do their focus, selection and scroll positions.

function patchAttributes(old, wanted) {
  for (const {name} of [...old.attributes]) if (!wanted.hasAttribute(name)) old.removeAttribute(name);
  for (const {name, value} of wanted.attributes) {
    if (name === "style") old.style.cssText = wanted.style.cssText;  // the page's policy forbids style attributes
    else if (old.getAttribute(name) !== value) old.setAttribute(name, value);
  }
}

// Makes `old` equal to `wanted`. Returns false if they are different kinds of nodes.
function patch(old, wanted) {
  if (old.nodeType !== wanted.nodeType || old.nodeName !== wanted.nodeName) return false;
  if (old.nodeType === Node.TEXT_NODE) {
    // Append if possible, because that keeps a selection in the text.
    if (wanted.data.startsWith(old.data)) old.appendData(wanted.data.slice(old.length));
    else old.data = wanted.data;
    return true;
  }
  if (old.dataset.kept !== undefined) return true;
  patchAttributes(old, wanted);
  patchChildren(old, [...wanted.childNodes]);
  return true;
}

// Leaves the first `first` children unchanged. Elements that stay keep their old listeners, so a listener must read its
// data from the page. An element with data-kept is not changed.
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
