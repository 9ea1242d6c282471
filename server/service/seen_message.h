// A message as clients see it: role, text, tool calls. Histories that clients send are found and compared in this form.
// Two messages are equal if they differ only in the following:
// - a text, or a list with that text as its only part;
// - fields that are null, empty, or absent;
// - ids of tool calls; their arguments as JSON text or as an object; in these, 1.0 or 1;
// - the reasoning of an answer, present or absent.
// Pure functions, defined for any JSON value.
#pragma once

#include <cstddef>
#include <cstdint>
#include <string>

#include "base/json_limits.h"

namespace ibid::serve {

// Returns the canonical form of a message, without the reasoning of an answer. Equal messages have equal forms.
std::string seen_form(const Json& message);
// Returns the reasoning of an answer; empty if it has none.
std::string seen_reasoning(const Json& message);

// True if `sent`, a message from a client, equals the known message. A client may leave out the reasoning, but not
// change it.
bool is_seen_as(const Json& known, const Json& sent);

// Returns the hash of a history: combines `before`, the hash of the preceding messages, with one more message. The
// first hash is a secret seed, so that clients cannot construct collisions. Hashes are stored: with one seed they are
// the same in every process.
uint64_t chain_hash(uint64_t before, const Json& message);
uint64_t chain_start(const std::string& space, uint64_t seed);

}  // namespace ibid::serve
