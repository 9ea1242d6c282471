// Options of sessions, and of saving and loading them, with their reports. Plain data.
#pragma once

#include <cstddef>
#include <string>
#include <vector>

#include "ibid/result.h"

namespace ibid {

// Policy for a conversation that exceeds the context.
enum class WhenFull {
  kError,             // the turn fails with kContextFull, before any computation
  kDropOldestTurns,   // drops whole turns, the oldest first; system messages, pinned turns and the newest turn stay
  kCutNewestMessage,  // shortens the newest and older messages, then drops turns; system and pinned messages stay whole
};

struct SessionOptions {
  std::string system = {};                // empty: no system message
  std::string variables = {};             // a JSON object of template variables: {"enable_thinking": false}
  std::string now = {};                   // fixed time of the template's clock (ISO 8601); empty: time of creation, UTC
  std::string cache_namespace = {};       // sessions share keys and values only within one namespace
  WhenFull when_full = WhenFull::kError;  // policy for a conversation that exceeds the context
  // Some templates change how earlier messages are rendered (drop thinking, for example). If true, the history as it is
  // rendered now is prefilled in idle time after the answer. Any call of the session except save() cancels this within
  // the time of one layer.
  bool repair_when_idle = true;
};

struct LoadOptions {
  // Namespace of the conversation, which the file does not store. Keys and values of another namespace are not used.
  std::string cache_namespace = {};
};

struct SaveOptions {
  bool with_kv = false;  // include keys and values, so that a loaded session resumes without prefill
};

// Report of save().
struct SaveReport {
  size_t n_with_kv = 0;  // number of leading tokens whose keys and values were written to the file
};

// The damaged parts of a loaded conversation. Its messages are complete.
struct IBID_EXPORT LoadWarnings {
  size_t n_replies = 0;             // the tokens of this many last answers were damaged; only their text is kept
  std::vector<std::string> fields;  // damaged fields, which have the values of a new session: "pinned", "usage" ...
  // Why keys and values of the file, from some page on, are not used. Ok: all are used, or the file has none.
  Status rows = {};

  bool any() const { return n_replies > 0 || !fields.empty() || !rows.ok(); }
  // A text for users: "the ids of 2 answers; pinned; keys and values (why)". Empty if nothing was lost.
  std::string to_string() const;
};

}  // namespace ibid
