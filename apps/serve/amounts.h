// Amounts as people write them on a command line: "8G", "512M", "30s", "5m".
#pragma once

#include <CLI/App.hpp>
#include <chrono>
#include <cstdint>
#include <optional>
#include <string_view>

namespace ibid::serve {

// A whole number of bytes, or of K, M, G, T (1024 each); nullopt: it is none, or beyond 2^63.
std::optional<uint64_t> read_bytes(std::string_view text);
// A whole number of seconds, or of ms, s, m, h; nullopt: it is none, or more than a year.
std::optional<std::chrono::milliseconds> read_time(std::string_view text);

CLI::Validator amount_of_bytes();
// or_never: "never" is fine, too.
CLI::Validator amount_of_time(bool or_never);

}  // namespace ibid::serve
