#include "server/protocol/site.h"

#include <array>
#include <cstdio>
#include <ctime>
#include <random>

namespace ibid::serve {

std::string random_id(std::string_view prefix) {
  constexpr const char* kDigits = "0123456789abcdef";
  thread_local std::random_device device;
  std::string id(prefix);
  for (size_t word = 0; word < 4; ++word) {
    uint32_t bits = device();
    for (size_t i = 0; i < 8; ++i, bits >>= 4) id += kDigits[bits & 15u];
  }
  return id;
}

void respond_json(http::Exchange& exchange, const Json& json, int status) {
  exchange.respond({.status = status, .body = json_to_string(json)});
}

std::string iso_time(int64_t unix_ns) {
  const std::time_t seconds = unix_ns / 1'000'000'000;
  std::tm parts{};
  gmtime_r(&seconds, &parts);
  std::array<char, 64> text{};
  const size_t length = std::strftime(text.data(), text.size(), "%Y-%m-%dT%H:%M:%S", &parts);
  std::array<char, 16> fraction{};
  std::snprintf(fraction.data(), fraction.size(), ".%09dZ", static_cast<int>(unix_ns % 1'000'000'000));
  return std::string(text.data(), length) + fraction.data();
}

}  // namespace ibid::serve
