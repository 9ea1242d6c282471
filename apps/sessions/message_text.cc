#include "apps/sessions/message_text.h"

#include <string_view>

#include "base/utf8.h"

namespace ibid {
namespace {

std::string part_text(const Json& part) {
  if (part.is_object()) {
    if (const auto text = part.find("text"); text != part.end() && text->is_string()) return text->get<std::string>();
  }
  return json_to_string(part);
}

// Collapses blanks and newlines to single blanks.
std::string in_one_line(const std::string& text) {
  std::string line;
  bool blank = true;  // true, so that no blank is written at the start
  for (const char c : text) {
    if (c == ' ' || c == '\t' || c == '\n' || c == '\r') {
      if (!blank) line += ' ';
      blank = true;
    } else {
      line += c;
      blank = false;
    }
  }
  if (!line.empty() && line.back() == ' ') line.pop_back();
  return line;
}

// Returns the offset of character number `number`, or the text's size.
size_t offset_of_character(std::string_view text, size_t number) {
  size_t offset = 0;
  while (number > 0 && offset < text.size()) {
    offset += utf8_decode(text, offset).length;
    --number;
  }
  return offset;
}

constexpr std::string_view kDots = "...";

}  // namespace

std::string text_of(const Json& message) {
  if (!message.is_object()) return json_to_string(message);
  const Json* content = content_value(message);
  if (content == nullptr || content->is_null()) return {};
  if (content->is_string()) return content->get<std::string>();
  if (!content->is_array()) return json_to_string(*content);
  std::string text;
  for (const Json& part : *content) text += (text.empty() ? "" : "\n") + part_text(part);
  return text;
}

size_t n_turns(const Json& messages) {
  size_t n = 0;
  for (const Json& message : messages) n += is_from(message, Role::kAssistant) ? 1 : 0;
  return n;
}

size_t last_from(const Json& messages, Role role) {
  for (size_t i = messages.size(); i > 0; --i) {
    if (is_from(messages[i - 1], role)) return i - 1;
  }
  return messages.size();
}

std::string excerpt(const std::string& text, size_t max_characters) {
  const std::string line = in_one_line(text);
  if (utf8_length(line) <= max_characters) return line;
  const size_t n_kept = max_characters > kDots.size() ? max_characters - kDots.size() : 0;
  return line.substr(0, offset_of_character(line, n_kept)) + std::string(kDots);
}

std::string excerpt_of_end(const std::string& text, size_t max_characters) {
  const std::string line = in_one_line(text);
  const size_t n = utf8_length(line);
  if (n <= max_characters) return line;
  const size_t n_kept = max_characters > kDots.size() ? max_characters - kDots.size() : 0;
  return std::string(kDots) + line.substr(offset_of_character(line, n - n_kept));
}

}  // namespace ibid
