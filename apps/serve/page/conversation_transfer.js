// Conversations as files that come from a person or go to one. What stands in them is conversation_file.js.

import {LIMITS, readConversations, writeConversations} from "./conversation_file.js";
import {element} from "./elements.js";

const KEPT_MS = 10000;  // until a browser has certainly begun to save

// Offers the records as a file; `name` may be any text.
export function download(records, name) {
  const url = URL.createObjectURL(new Blob([writeConversations(records)], {type: "application/json"}));
  const file = name.replace(/[^\p{L}\p{N} _-]+/gu, "").trim().slice(0, 60) || "conversation";
  element("a", {href: url, download: `${file}.ibid.json`}).click();
  setTimeout(() => URL.revokeObjectURL(url), KEPT_MS);
}

// Throws as readConversations() does.
export async function readFileOfConversations(file) {
  if (file.size > LIMITS.fileBytes) throw new Error("The file is larger than 64 MB.");
  return readConversations(await file.text());
}
