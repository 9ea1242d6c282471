// The requests of the pages, all to the server from which they were loaded.

import {serverEvents} from "./stream.js";

// A failed request. Status 0: the server cannot be reached.
export class ServerError extends Error {
  constructor(status, message, retryAfter = null) {
    super(message);
    this.status = status;
    this.retryAfter = retryAfter;  // seconds
  }

  // The message for the user, with the time after which to try again.
  get words() {
    return this.message + (this.retryAfter ? ` Try again in ${this.retryAfter} s.` : "");
  }
}

async function errorOf(response) {
  const retryAfter = Number.parseInt(response.headers.get("retry-after") ?? "", 10);
  let message = `The server answered ${response.status}.`;
  try {
    const {error} = JSON.parse((await response.text()).slice(0, 100000));
    message = String(typeof error === "string" ? error : error.message);
  } catch {
    // The body is not JSON, so only the status is known.
  }
  return new ServerError(response.status, message, Number.isNaN(retryAfter) ? null : retryAfter);
}

// keyOf: returns the API key, or "".
export class Server {
  constructor(keyOf) {
    this.keyOf = keyOf;
  }

  async #fetch(path, options = {}) {
    const key = this.keyOf();
    const headers = {...options.headers, ...(key === "" ? {} : {authorization: `Bearer ${key}`})};
    let response;
    try {
      response = await fetch(path, {...options, headers, credentials: "omit", redirect: "error", cache: "no-store"});
    } catch (error) {
      if (error.name === "AbortError") throw error;
      throw new ServerError(0, "The server cannot be reached.");
    }
    if (!response.ok) throw await errorOf(response);
    return response;
  }

  // Replaces the messages with which browsers report a lost connection, because they differ and users would not
  // understand them.
  async* #events(response) {
    try {
      yield* serverEvents(response.body);
    } catch (error) {
      if (!(error instanceof TypeError)) throw error;
      throw new ServerError(0, "The connection ended before the answer did.");
    }
  }

  // Returns [{name, context}]; context: null if the model is not loaded.
  async models() {
    const {data = []} = await (await this.#fetch("/v1/models")).json();
    return data.map((model) => ({name: String(model.id), context: model.meta?.n_ctx ?? null}));
  }

  async monitor(signal) {
    return (await this.#fetch("/monitor.json", {signal})).json();
  }

  // Yields the chunks of a chat completion. If the signal is aborted, throws an AbortError.
  async* answer(request, signal) {
    const response = await this.#fetch("/v1/chat/completions", {
      method: "POST", signal, headers: {"content-type": "application/json"},
      body: JSON.stringify({...request, stream: true, stream_options: {include_usage: true}, return_progress: true}),
    });
    let whole = false;
    for await (const data of this.#events(response)) {
      if (data === "[DONE]") whole = true;
      else yield JSON.parse(data);
    }
    if (!whole) throw new ServerError(0, "The connection ended before the answer did.");
  }
}
