#include "server/http/api_keys.h"

#include <algorithm>
#include <cstdlib>
#include <utility>

#include "base/file_ops.h"
#include "base/sha256.h"
#include "base/text.h"

namespace ibid::serve {

namespace {

constexpr uint64_t kMaxFileBytes = 1u << 20;
constexpr const char* kNamespacesRight = "namespaces";
constexpr size_t kMinKey = 8, kMaxKey = 512, kMaxName = 64;

bool is_name(std::string_view text) {
  return !text.empty() && text.size() <= kMaxName && std::all_of(text.begin(), text.end(), [](char c) {
    return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9') || c == '_' || c == '-';
  });
}

bool is_key(std::string_view text) {
  return text.size() >= kMinKey && text.size() <= kMaxKey &&
         std::all_of(text.begin(), text.end(), [](char c) { return c > 0x20 && c < 0x7f; });
}

std::string_view without_blanks(std::string_view line) {
  const size_t begin = line.find_first_not_of(" \t\r");
  return begin == std::string_view::npos ? "" : line.substr(begin, line.find_last_not_of(" \t\r") - begin + 1);
}

// Returns the same name in every process, so that a key's entries in a cache directory are found again.
std::string namespace_of_key(std::string_view key) {
  Sha256 hash;
  hash.update("ibid api key namespace:");
  hash.update(key);
  return "key-" + to_hex(hash.finish()).substr(0, 16);
}

}  // namespace

Result<std::vector<http::ApiKey>> parse_api_keys(std::string_view text, const std::string& what) {
  std::vector<http::ApiKey> keys;
  for (size_t number = 1; !text.empty(); ++number) {
    const size_t end = std::min(text.find('\n'), text.size());
    std::string_view line = without_blanks(text.substr(0, end));
    text.remove_prefix(std::min(end + 1, text.size()));
    if (line.empty() || line.starts_with('#')) continue;
    const std::string place = what + ", line " + std::to_string(number) + ": ";
    const size_t blank = std::min(line.find_first_of(" \t"), line.size());
    const std::string_view right = without_blanks(line.substr(blank));
    line = line.substr(0, blank);
    // The first "=" separates a name only if the text before it is a name: some providers' keys end with "=".
    const size_t equals = line.find('=');
    const bool named =
        equals != std::string_view::npos && is_name(line.substr(0, equals)) && is_key(line.substr(equals + 1));
    const std::string_view key = named ? line.substr(equals + 1) : line;
    if (!is_key(key)) {
      return {ErrorCode::kInvalidArgument, place + "a key must have " + std::to_string(kMinKey) + " to " +
                                               std::to_string(kMaxKey) +
                                               " printable characters, and may be preceded by NAME="};
    }
    if (!right.empty() && right != kNamespacesRight) {
      return {ErrorCode::kInvalidArgument, place + "only the word \"" + kNamespacesRight + "\" may follow a key"};
    }
    const auto is_it = [&](const http::ApiKey& other) { return other.key == key; };
    if (std::any_of(keys.begin(), keys.end(), is_it)) return {ErrorCode::kDuplicate, place + "duplicate key"};
    keys.push_back({.key = std::string(key),
                    .cache_namespace = named ? "name-" + std::string(line.substr(0, equals)) : namespace_of_key(key),
                    .names_namespaces = !right.empty()});
  }
  return keys;
}

Result<std::vector<http::ApiKey>> read_api_keys(const std::string& path) {
  std::vector<http::ApiKey> keys;
  if (!path.empty()) {
    TRY_ASSIGN(const std::string text, read_file(system_file_ops(), path, kMaxFileBytes));
    TRY_ASSIGN(keys, parse_api_keys(text, path));
    if (keys.empty()) return {ErrorCode::kInvalidArgument, path + " contains no keys (one per line expected)"};
  }
  const char* of_environment = std::getenv("IBID_API_KEY");
  if (of_environment == nullptr || *of_environment == '\0') return keys;
  TRY_ASSIGN(std::vector<http::ApiKey> more, parse_api_keys(of_environment, "IBID_API_KEY"));
  for (http::ApiKey& key : more) keys.push_back(std::move(key));
  return keys;
}

}  // namespace ibid::serve
