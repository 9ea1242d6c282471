// A message as clients see it: role, text, calls of tools. By this a history that a client sends is told from another,
// and found again. Two messages are the same where a client may send the one for the other:
//  - a text, and a list of one text part with that text;
//  - fields that are null or empty, and fields that are not there;
//  - calls of tools that differ in their ids; arguments as a text of JSON, and as the object that it says; 1.0 and 1 in
//    these;
//  - an answer with its reasoning, and without it.
// Everything else counts. Pure functions; any JSON value has an answer.
#pragma once

#include <cstddef>
#include <cstdint>
#include <string>

#include "base/json_limits.h"

namespace ibid::serve {

// What a message is but for an answer's reasoning, in one form. Equal forms: the same message.
std::string seen_form(const Json& message);
// The reasoning of an answer; empty: it has none.
std::string seen_reasoning(const Json& message);

// Whether `sent`, a client's, stands for the message that is known. A client may leave the reasoning out, but not
// change it.
bool is_seen_as(const Json& known, const Json& sent);

// The hash of a history: that of the messages before it, and one more. `seed` is secret, so that nobody can make
// histories meet. Hashes are kept: those of one seed are the same in every process.
uint64_t chain_hash(uint64_t before, const Json& message);
uint64_t chain_start(const std::string& space, uint64_t seed);

}  // namespace ibid::serve
