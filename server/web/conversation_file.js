// Conversations as a JSON file: writeConversations() for export, readConversations() for import. Files are untrusted,
// so every field is checked and copied into a fresh object; unknown fields are dropped.

import {ROOT, newId, nextTime} from "./conversation_tree.js";

const FORMAT = "ibid conversations";
const VERSION = 1;

// Limits for import and export: a file is read as one string, and a JavaScript string has at most 512 M characters.
export const LIMITS = {
  fileBytes: 500 << 20,
  partBytes: 64 << 20,  // maximum size of each file of an export
  conversations: 5000,
  nodes: 200000,  // maximum messages of one conversation
  text: 500 << 20, // maximum characters of one message
  files: 64,  // maximum files of one message
  calls: 256,
  short: 500,      // maximum characters of names and titles
};

export function writeConversations(records) {
  return JSON.stringify({format: FORMAT, version: VERSION, conversations: records}, null, 1);
}

export const TOO_LARGE = `The file is larger than ${LIMITS.fileBytes >> 20} MB.`;

// Splits the records into lists, each small enough for one file that can be imported.
export function inParts(records, {partBytes, conversations} = LIMITS) {
  const parts = [[]];
  let size = 0;
  for (const record of records) {
    const length = JSON.stringify(record).length;
    const part = parts.at(-1);
    if (part.length > 0 && (size + length > partBytes || part.length >= conversations)) {
      parts.push([]);
      size = 0;
    }
    size += length;
    parts.at(-1).push(record);
  }
  return parts;
}

class BadFile extends Error {}

function fail(where, what) {
  throw new BadFile(`${where}: ${what}`);
}

function object(value, where) {
  if (value === null || typeof value !== "object" || Array.isArray(value)) fail(where, "is not an object");
  return value;
}

function list(value, where, most) {
  if (!Array.isArray(value)) fail(where, "is not a list");
  if (value.length > most) fail(where, `has ${value.length} elements, at most ${most}`);
  return value;
}

function text(value, where, most) {
  if (value === undefined || value === null) return "";
  if (typeof value !== "string") fail(where, "is not a string");
  if (value.length > most) fail(where, `has ${value.length} characters, at most ${most}`);
  return value;
}

function id(value, where) {
  if (typeof value !== "string" || !/^[A-Za-z0-9-]{1,64}$/.test(value)) fail(where, "is not an identifier");
  return value;
}

function time(value) {
  return Number.isSafeInteger(value) && value > 0 && value < 8.64e15 ? value : nextTime();
}

function number(value) {
  return typeof value === "number" && Number.isFinite(value) && value >= 0 ? value : null;
}

// Checks the usage and timings of an answer (figures_line.js), and the reason why a cached prefix was lost.
function figures(value) {
  if (value === null || typeof value !== "object") return null;
  const checked = {};
  for (const name of ["firstMs", "tps", "totalMs", "prompt", "cached", "read", "written", "fromDisk", "readAgain"]) {
    checked[name] = number(value[name]);
  }
  const lost = value.lost;
  checked.lost = lost && typeof lost === "object"
    ? {tokens: number(lost.tokens), message: number(lost.message), byte: number(lost.byte),
       cause: text(lost.cause, "lost.cause", LIMITS.short)}
    : null;
  return checked;
}

function node(value, where) {
  object(value, where);
  const role = value.role;
  if (role !== "user" && role !== "assistant") fail(`${where}.role`, "is neither user nor assistant");
  return {
    id: id(value.id, `${where}.id`),
    parent: value.parent === ROOT ? ROOT : id(value.parent, `${where}.parent`),
    role,
    text: text(value.text, `${where}.text`, LIMITS.text),
    files: list(value.files ?? [], `${where}.files`, LIMITS.files).map((file, i) => ({
      name: text(object(file, `${where}.files[${i}]`).name, `${where}.files[${i}].name`, LIMITS.short),
      text: text(file.text, `${where}.files[${i}].text`, LIMITS.text),
    })),
    reasoning: text(value.reasoning, `${where}.reasoning`, LIMITS.text),
    calls: list(value.calls ?? [], `${where}.calls`, LIMITS.calls).map((call, i) => ({
      id: text(object(call, `${where}.calls[${i}]`).id, `${where}.calls[${i}].id`, LIMITS.short),
      name: text(call.name, `${where}.calls[${i}].name`, LIMITS.short),
      arguments: text(call.arguments, `${where}.calls[${i}].arguments`, LIMITS.text),
    })),
    model: text(value.model, `${where}.model`, LIMITS.short),
    made: time(value.made),
    end: text(value.end, `${where}.end`, LIMITS.short) || (role === "assistant" ? "closed" : ""),
    error: text(value.error, `${where}.error`, LIMITS.text),
    figures: figures(value.figures),
  };
}

// Checks a conversation and gives it a new id, so that an import never changes existing ones.
function conversation(value, where) {
  object(value, where);
  const roles = new Map([[ROOT, "assistant"]]);
  const nodes = list(value.nodes ?? [], `${where}.nodes`, LIMITS.nodes).map((each, i) => {
    const checked = node(each, `${where}.nodes[${i}]`);
    if (roles.has(checked.id)) fail(`${where}.nodes[${i}].id`, "is a duplicate");
    if (!roles.has(checked.parent)) fail(`${where}.nodes[${i}].parent`, "is not an earlier node");
    if (roles.get(checked.parent) === checked.role) fail(`${where}.nodes[${i}].role`, "is that of its parent");
    roles.set(checked.id, checked.role);
    return checked;
  });
  const chosen = list(value.chosen ?? [], `${where}.chosen`, LIMITS.nodes + 1)
    .filter((pair) => Array.isArray(pair) && pair.length === 2 && pair.every((each) => typeof each === "string"))
    .map(([parent, child]) => [parent, child]);
  return {
    id: newId(),
    title: text(value.title, `${where}.title`, LIMITS.short),
    system: text(value.system, `${where}.system`, LIMITS.text),
    model: text(value.model, `${where}.model`, LIMITS.short),
    created: time(value.created),
    changed: time(value.changed),
    nodes,
    chosen,
  };
}

// Returns the records in a file. Throws an Error with a message for the user if any part is invalid.
export function readConversations(source) {
  if (source.length > LIMITS.fileBytes) throw new BadFile(TOO_LARGE);
  let file;
  try {
    file = JSON.parse(source);
  } catch {
    throw new BadFile("The file is not JSON.");
  }
  if (object(file, "The file").format !== FORMAT) throw new BadFile("The file holds no conversations of this page.");
  if (file.version !== VERSION) throw new BadFile(`The file has version ${String(file.version).slice(0, 20)}, not 1.`);
  return list(file.conversations, "conversations", LIMITS.conversations)
    .map((each, i) => conversation(each, `conversations[${i}]`));
}
