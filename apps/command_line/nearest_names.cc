#include "apps/command_line/nearest_names.h"

#include <algorithm>
#include <numeric>
#include <utility>

namespace ibid {

namespace {

// How many letters have to be changed, added or left out to make one of the other.
size_t distance(std::string_view a, std::string_view b) {
  std::vector<size_t> row(b.size() + 1);
  std::iota(row.begin(), row.end(), size_t{0});
  for (size_t i = 0; i < a.size(); ++i) {
    size_t diagonal = row[0];
    row[0] = i + 1;
    for (size_t j = 0; j < b.size(); ++j) {
      const size_t above = row[j + 1];
      row[j + 1] = std::min({above + 1, row[j] + 1, diagonal + (a[i] == b[j] ? 0 : 1)});
      diagonal = above;
    }
  }
  return row.back();
}

}  // namespace

std::string lower_case(std::string_view text) {
  std::string lower(text);
  for (char& c : lower) c = c >= 'A' && c <= 'Z' ? static_cast<char>(c - 'A' + 'a') : c;
  return lower;
}

std::vector<std::string> nearest_names(std::string_view typed, const std::vector<std::string>& names) {
  constexpr size_t kLongest = 256;   // nobody mistypes more
  constexpr size_t kPartLetters = 4;  // a shorter part says nothing
  const std::string wanted = lower_case(typed.substr(0, kLongest));
  std::vector<std::pair<size_t, std::string>> found;
  for (const std::string& name : names) {
    const std::string other = lower_case(name);
    const size_t shorter = std::min(wanted.size(), other.size());
    const bool within = shorter >= kPartLetters &&
                        (wanted.find(other) != std::string::npos || other.find(wanted) != std::string::npos);
    const size_t apart = within ? 1 : distance(wanted, other);
    const size_t most = shorter < kPartLetters ? 1 : std::max<size_t>(2, shorter / 3);  // two letters change places
    if (apart <= most) found.emplace_back(apart, name);
  }
  std::stable_sort(found.begin(), found.end(), [](const auto& a, const auto& b) { return a.first < b.first; });
  std::vector<std::string> result;
  for (auto& [apart, name] : found) result.push_back(std::move(name));
  return result;
}

}  // namespace ibid
