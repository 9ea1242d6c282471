#include "templates/reply/marker_words.h"

#include <algorithm>

namespace ibid {
namespace {

bool is_upper_name(char c) { return (c >= 'A' && c <= 'Z') || c == '_' || c == '/'; }

bool joins_words(char c) {
  return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9') || c == '_' || c == '.' ||
         c == '-' || c == '`' || static_cast<unsigned char>(c) >= 0x80;
}

size_t word_length(std::string_view text) {
  const auto run = [text](size_t n, auto&& belongs) {
    while (n < text.size() && belongs(text[n])) ++n;
    return n;
  };
  const char first = text.front();
  if (is_marker_space(first)) return run(1, is_marker_space);
  if (first == '<') {
    const size_t end = run(1, [](char c) { return c != '<' && c != '>' && !is_marker_space(c); });
    return end < text.size() && text[end] == '>' ? end + 1 : end;
  }
  if (first == '[') {
    const size_t end = run(1, is_upper_name);
    return end > 1 && end < text.size() && text[end] == ']' ? end + 1 : 1;
  }
  return joins_words(first) ? run(1, joins_words) : 1;
}

}  // namespace

bool is_marker_space(char c) { return c == ' ' || c == '\n' || c == '\t' || c == '\r'; }

std::vector<std::string_view> marker_words(std::string_view text) {
  std::vector<std::string_view> words;
  while (!text.empty()) {
    words.push_back(text.substr(0, word_length(text)));
    text.remove_prefix(words.back().size());
  }
  return words;
}

std::vector<std::string> solid_marker_words(std::string_view text) {
  std::vector<std::string> words;
  for (const std::string_view word : marker_words(text)) {
    if (!is_marker_space(word.front())) words.emplace_back(word);
  }
  return words;
}

size_t common_words_at_begin(std::string_view a, std::string_view b) {
  const auto in_a = marker_words(a), in_b = marker_words(b);
  size_t n = 0;
  for (size_t i = 0; i < std::min(in_a.size(), in_b.size()) && in_a[i] == in_b[i]; ++i) n += in_a[i].size();
  return n;
}

std::string_view trim_marker_spaces(std::string_view text) {
  while (!text.empty() && is_marker_space(text.front())) text.remove_prefix(1);
  while (!text.empty() && is_marker_space(text.back())) text.remove_suffix(1);
  return text;
}

}  // namespace ibid
