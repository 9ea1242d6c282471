// What is said of a model, once for people and for programs: a name, words, and the same as JSON.
#pragma once

#include <string>
#include <vector>

#include "base/json_limits.h"

namespace ibid {

struct Fact {
  std::string name;  // "trained context": of the text; the JSON key has _ for blanks
  std::string text;
  Json value;
};
using Facts = std::vector<Fact>;

// An object with a key for each.
Json facts_json(const Facts& facts);

// 0 1 2 3 6 8 9 as "0-3, 6, 8-9"; what is beyond the first `most` ranges is "...".
std::string ranges_text(const std::vector<size_t>& increasing, size_t most = 8);

// Up to five digits of a number, without zeros at the end.
std::string number_text(double value);

// 134515008 as "134,515,008".
std::string grouped_text(uint64_t value);

}  // namespace ibid
