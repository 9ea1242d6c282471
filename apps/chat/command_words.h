// How the words behind a command are taken apart, and how long the lines of its answer are.
#pragma once

#include <charconv>
#include <cstddef>
#include <cstdint>
#include <optional>
#include <string_view>

namespace ibid {

// Lists and excerpts fit a usual terminal, with a sign in front of them.
inline constexpr size_t kLineColumns = 78;

inline std::string_view trimmed(std::string_view text) {
  constexpr std::string_view kBlanks = " \t\n";
  const size_t begin = text.find_first_not_of(kBlanks);
  if (begin == std::string_view::npos) return {};
  return text.substr(begin, text.find_last_not_of(kBlanks) - begin + 1);
}

inline size_t count_words(std::string_view text) {
  size_t n = 0;
  for (text = trimmed(text); !text.empty(); ++n) {
    const size_t end = text.find_first_of(" \t\n");
    text = end == std::string_view::npos ? std::string_view() : trimmed(text.substr(end));
  }
  return n;
}

// Takes a number and the blanks behind it off the front of `text`. One that is too large is the largest.
// nullopt: no number stands there, and `text` is as it was.
inline std::optional<size_t> leading_number(std::string_view& text) {
  size_t value = 0;
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), value);
  const auto length = static_cast<size_t>(end - text.data());
  if (error == std::errc::result_out_of_range) value = SIZE_MAX;
  if (error == std::errc::invalid_argument) return std::nullopt;
  if (length < text.size() && text.find_first_of(" \t\n", length) != length) return std::nullopt;
  text = trimmed(text.substr(length));
  return value;
}

}  // namespace ibid
