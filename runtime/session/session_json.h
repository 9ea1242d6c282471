// A saved conversation as JSON: its messages, the ids of its answers as they were sampled, and what else a session
// needs to go on. docs/sessions.md has the fields; runtime/session/session_file.h has the bytes on disk.
//
// What is read comes from outside. If some parts of a conversation are not sound, the sound ones are used and the
// losses are reported. Either all messages are there, or reading is an error. Pure functions.
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

// An answer as it was sampled; encoding its text need not give the same ids.
struct SavedReply {
  size_t message = 0;  // its number
  Tokens ids;
  std::optional<TokenId> end_of_turn;
};

struct SavedSession {
  std::string model_name;  // for people
  Json variables = Json::object();
  std::string now;
  WhenFull when_full = WhenFull::kError;
  bool repair_when_idle = true;
  Json messages = Json::array();
  std::set<size_t> pinned;
  std::vector<SavedReply> replies;  // in the order of their messages
  Usage usage;
  uint32_t numerics_version = 0;  // of the program that saved it; 0: an older file. Writing takes this program's
  size_t n_ids = 0;  // of the whole conversation when it was saved, for people; 0: an older file
  Json notes = Json();  // of whoever keeps it; a session neither writes nor reads them. Null: none
  SessionLosses losses;  // by session_from_json(); of rows nothing is known there
};

Json session_to_json(const SavedSession& session);
// Errors: kBadHeader naming the field, for messages. Other parts that are not sound are among the losses. Fields
// that it does not know, such as the namespace of older files, are left alone. Numbers of messages are in range,
// roles are there, ids are at least 0.
Result<SavedSession> session_from_json(const Json& json);

inline constexpr size_t kMaxSessionBytes = 256'000'000;

// The JSON as text that session_from_text() reads back. Errors, naming the field: kInvalidArgument for what JSON
// cannot carry (NaN, infinity, binary values, text that is not UTF-8); kLimitExceeded for what is nested deeper than
// kMaxJsonDepth, or is more than kMaxSessionBytes or than a file may have values.
Result<std::string> session_to_text(const Json& json);
// Errors: those of parse_json(), and of session_from_json().
Result<SavedSession> session_from_text(std::string_view text, const std::string& what);

}  // namespace ibid
