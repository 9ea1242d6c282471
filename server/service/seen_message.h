// A message as clients see it: role, text, tool calls. Histories that clients send are compared and found by this. Two
// messages are equal if they differ only in:
//  - a text, or a list with that text as its only part;
//  - fields that are null or empty, or absent;
//  - ids of tool calls; arguments as JSON text or as an object; 1.0 or 1 in these;
//  - the reasoning of an answer, present or absent.
// Pure functions, defined for any JSON value.
#pragma once

#include <cstddef>
#include <cstdint>
#include <string>

#include "base/json_limits.h"

namespace ibid::serve {

// Canonical form of a message without an answer's reasoning. Equal forms: equal messages.
std::string seen_form(const Json& message);
// The reasoning of an answer; empty: none.
std::string seen_reasoning(const Json& message);

// True if `sent`, from a client, is the known message. A client may leave out the reasoning, but not change it.
bool is_seen_as(const Json& known, const Json& sent);

// The hash of a history: combines the hash `before` of the preceding messages with one more. `seed` is secret, so that
// clients cannot construct collisions. Hashes are stored: with one seed they are the same in every process.
uint64_t chain_hash(uint64_t before, const Json& message);
uint64_t chain_start(const std::string& space, uint64_t seed);

}  // namespace ibid::serve
