#include "apps/inspect/fact.h"

#include <algorithm>
#include <cstdio>

namespace ibid {

Json facts_json(const Facts& facts) {
  Json json = Json::object();
  for (const Fact& fact : facts) {
    std::string key = fact.name;
    std::replace(key.begin(), key.end(), ' ', '_');
    json[key] = fact.value;
  }
  return json;
}

std::string ranges_text(const std::vector<size_t>& increasing, size_t most) {
  std::string text;
  size_t n_ranges = 0;
  for (size_t i = 0; i < increasing.size(); ++n_ranges) {
    if (n_ranges == most) return text + ", ...";
    size_t last = i;
    while (last + 1 < increasing.size() && increasing[last + 1] == increasing[last] + 1) ++last;
    text += (text.empty() ? "" : ", ") + std::to_string(increasing[i]);
    if (last > i) text += "-" + std::to_string(increasing[last]);
    i = last + 1;
  }
  return text;
}

std::string number_text(double value) {
  char text[32];
  std::snprintf(text, sizeof text, value == static_cast<double>(static_cast<int64_t>(value)) ? "%.0f" : "%.5g", value);
  return text;
}

std::string grouped_text(uint64_t value) {
  std::string text = std::to_string(value);
  for (size_t i = text.size(); i > 3; i -= 3) text.insert(i - 3, ",");
  return text;
}

}  // namespace ibid
