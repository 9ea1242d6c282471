// The options of a session, of saving and of loading it, and the reports of both. Plain data.
#pragma once

#include <cstddef>
#include <string>
#include <vector>

#include "ibid/result.h"

namespace ibid {

// What becomes of a conversation that outgrows the context.
enum class WhenFull {
  kError,            // kContextFull, before anything was computed
  kDropOldestTurns,  // whole turns, the oldest first; system messages, turns with a pin and the newest turn stay
  kCutNewestMessage, // the middle of the newest message, then of long older ones, then whole turns: a later short
                     // message finds room; system messages and pinned ones stay whole
};

struct SessionOptions {
  std::string system = {};                // empty: no system message
  std::string variables = {};             // for the template, a JSON object: {"enable_thinking": false}; or nothing
  std::string now = {};                   // the template's clock (ISO 8601), frozen; empty: when created, UTC
  std::string cache_namespace = {};       // sessions share keys and values only within one namespace
  WhenFull when_full = WhenFull::kError;  // what becomes of a conversation that outgrows the context
  // Some templates rewrite earlier messages (they drop thinking, say). If true, the rewritten history is prefilled in
  // idle time after the answer. Any call of the session but save() ends that within a layer.
  bool repair_when_idle = true;
};

struct LoadOptions {
  // The namespace that the conversation belongs to; a file does not say that. Keys and values that were saved in
  // another namespace are not used.
  std::string cache_namespace = {};
};

struct SaveOptions {
  bool with_kv = false;  // keys and values, too: the file goes on without the model having read it again
};

// What save() wrote.
struct SaveReport {
  size_t n_with_rows = 0;  // how many of the first ids have keys and values in the file
};

// The parts of a saved conversation that could not be used as they stand. Its messages are complete.
struct IBID_EXPORT SessionLosses {
  size_t n_replies = 0;             // answers, the last ones, that are text now: their ids were not sound
  std::vector<std::string> fields;  // "pinned", "usage" ...: as in a new session
  // Why keys and values of the file are not used, those of one page and all behind it. Ok: none was left out, or
  // there are none.
  Status rows = {};

  bool any() const { return n_replies > 0 || !fields.empty() || !rows.ok(); }
  // For people: "the ids of 2 answers; pinned; keys and values (why)". Empty: nothing was lost.
  std::string to_string() const;
};

}  // namespace ibid
