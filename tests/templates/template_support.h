#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "templates/chat_template.h"

namespace ibid {

// A render with the origin of each byte: 't' template, 'i' input.
struct SpelledText {
  std::string bytes, origins;
  bool operator==(const SpelledText&) const = default;
};
SpelledText spell(const MarkedText& text);

std::optional<std::string> read_text(const std::string& path);
// One JSON value per line; fails the test if the file does not exist.
std::vector<Json> read_json_lines(const std::string& path);

// The templates of the reference data with their names. If the data does not exist, the list is empty and the reason is
// printed.
struct NamedTemplate {
  std::string name, source;
};
std::vector<NamedTemplate> reference_templates(const std::string& shared);

// The arguments of a golden case in the form of the library.
struct TemplateCase {
  Json messages;
  TemplateVariables variables;
  bool continue_final = false;
};
TemplateCase to_case(Json input);

// Returns "" if the result of a golden case is the expected one, else the difference.
std::string check_answer(const Json& expect, const Result<std::string>& got);
Result<std::string> answer(const ChatTemplate& chat_template, const TemplateCase& golden);

class Random {
 public:
  explicit Random(uint64_t seed) : state_(seed * 0x9E3779B97F4A7C15u + 1) {}
  uint64_t next();
  size_t below(size_t n) { return static_cast<size_t>(next() % n); }
  bool chance(size_t per_cent) { return below(100) < per_cent; }

 private:
  uint64_t state_;
};

// A message that may come next in any conversation: text, parts, reasoning, tool calls and their results.
Json random_message(Random& random, const Json& before);

}  // namespace ibid
