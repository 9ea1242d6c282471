// A saved conversation as JSON: its messages, the sampled tokens of its answers, and the settings of its session.
// docs/sessions.md lists the fields; runtime/session/session_file.h is the format on disk.
//
// The input is untrusted. If parts of a conversation are damaged, the other parts are used and the damage is reported;
// but a missing or damaged message is an error. Pure functions.
#pragma once

#include <cstddef>
#include <optional>
#include <set>
#include <string>
#include <vector>

#include "base/json_limits.h"
#include "base/result.h"
#include "ibid/session_options.h"
#include "ibid/token.h"
#include "ibid/usage.h"

namespace ibid {

// A sampled answer; tokenizing its text need not give the same tokens.
struct SavedReply {
  size_t message = 0;  // index of the reply's message
  Tokens ids;
  std::optional<TokenId> end_of_turn;
};

struct SavedSession {
  std::string model_name;  // name shown to people
  Json variables = Json::object();
  std::string now;
  WhenFull when_full = WhenFull::kError;
  bool repair_when_idle = true;
  Json messages = Json::array();
  std::set<size_t> pinned;
  std::vector<SavedReply> replies;  // in the order of their messages
  Usage usage;
  uint32_t numerics_version = 0;  // version of the saving program; 0: an older file. Writing sets the present version
  size_t n_tokens = 0;            // tokens of the whole conversation when saved, shown to people; 0: an older file
  Json notes = Json();            // notes of the program that keeps the file; sessions ignore them. Null: no notes
  LoadWarnings load_warnings;     // warnings of session_from_json(), which does not check the rows
};

Json session_to_json(const SavedSession& session);
// Error: kBadHeader for a damaged message, naming the field. Other damaged parts are added to load_warnings. Unknown
// fields, such as the namespace of older files, are ignored. The result has message numbers in range, roles, and token
// ids >= 0.
Result<SavedSession> session_from_json(const Json& json);

inline constexpr size_t kMaxSessionBytes = 256'000'000;

// Returns the JSON as text that session_from_text() reads back. Errors, naming the field: kInvalidArgument for values
// that JSON cannot express (NaN, infinity, binary, not UTF-8); kLimitExceeded for more than kMaxJsonDepth levels, more
// than kMaxSessionBytes, or more values than a file may have.
Result<std::string> session_to_text(const Json& json);
// Reads a saved conversation from JSON text; `what` names it in messages. Errors: those of parse_json(), and of
// session_from_json().
Result<SavedSession> session_from_text(std::string_view text, const std::string& what);

}  // namespace ibid
