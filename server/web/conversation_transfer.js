// Uploads and downloads conversations as files; conversation_file.js defines their content.

import {LIMITS, TOO_LARGE, inParts, readConversations, writeConversations} from "./conversation_file.js";
import {element} from "./elements.js";

const KEPT_MS = 10000;  // time after which the browser has certainly started the download

// Downloads the records as one file; `name` may be any text.
export function download(records, name) {
  const url = URL.createObjectURL(new Blob([writeConversations(records)], {type: "application/json"}));
  const file = name.replace(/[^\p{L}\p{N} _-]+/gu, "").trim().slice(0, 60) || "conversation";
  element("a", {href: url, download: `${file}.ibid.json`}).click();
  setTimeout(() => URL.revokeObjectURL(url), KEPT_MS);
}

// Downloads the records as files that can be imported: as one file, unless they are very large.
export function downloadAll(records) {
  const parts = inParts(records);
  parts.forEach((part, i) => {
    download(part, parts.length === 1 ? "conversations" : `conversations ${i + 1} of ${parts.length}`);
  });
}

// Returns the conversations in an uploaded file. Throws the errors of readConversations().
export async function readFileOfConversations(file) {
  if (file.size > LIMITS.fileBytes) throw new Error(TOO_LARGE);
  return readConversations(await file.text());
}
