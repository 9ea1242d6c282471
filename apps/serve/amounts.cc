#include "apps/serve/amounts.h"

#include <charconv>
#include <string>

namespace ibid::serve {

namespace {

struct NumberAndUnit {
  uint64_t number = 0;
  std::string_view unit;
};

std::optional<NumberAndUnit> split_amount(std::string_view text) {
  NumberAndUnit split;
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), split.number);
  if (error != std::errc()) return std::nullopt;
  split.unit = text.substr(static_cast<size_t>(end - text.data()));
  return split;
}

}  // namespace

std::optional<uint64_t> read_bytes(std::string_view text) {
  const std::optional<NumberAndUnit> amount = split_amount(text);
  if (!amount) return std::nullopt;
  constexpr std::string_view kUnits = "KMGT";
  int shift = 0;
  if (!amount->unit.empty()) {
    const size_t at = kUnits.find(amount->unit);
    if (amount->unit.size() != 1 || at == std::string_view::npos) return std::nullopt;
    shift = 10 * (static_cast<int>(at) + 1);
  }
  if (amount->number > (uint64_t{1} << (63 - shift))) return std::nullopt;
  return amount->number << shift;
}

std::optional<std::chrono::milliseconds> read_time(std::string_view text) {
  constexpr uint64_t kYearMs = 366ull * 24 * 3600 * 1000;
  const std::optional<NumberAndUnit> amount = split_amount(text);
  if (!amount) return std::nullopt;
  const std::string_view unit = amount->unit;
  const uint64_t factor = unit == "ms"                ? 1
                          : unit.empty() || unit == "s" ? 1000
                          : unit == "m"               ? 60'000
                          : unit == "h"               ? 3'600'000
                                                      : 0;
  if (factor == 0 || amount->number > kYearMs / factor) return std::nullopt;
  return std::chrono::milliseconds(amount->number * factor);
}

CLI::Validator amount_of_bytes() {
  const auto complaint = [](const std::string& text) {
    return read_bytes(text) ? "" : "'" + text + "' is no number of bytes, such as 512M or 8G";
  };
  return CLI::Validator(complaint, "");
}

CLI::Validator amount_of_time(bool or_never) {
  const auto complaint = [or_never](const std::string& text) {
    if ((or_never && text == "never") || read_time(text)) return std::string();
    return "'" + text + "' is no time, such as 30s, 5m" + (or_never ? " or never" : " or 1h");
  };
  return CLI::Validator(complaint, "");
}

}  // namespace ibid::serve
