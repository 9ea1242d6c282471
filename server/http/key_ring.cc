#include "server/http/key_ring.h"

#include "server/http/header_names.h"

namespace ibid::http {

namespace {

Sha256Digest digest_of(std::string_view key) {
  Sha256 hash;
  hash.update(key);
  return hash.finish();
}

bool same_digest(const Sha256Digest& a, const Sha256Digest& b) {
  std::byte difference{0};
  for (size_t i = 0; i < a.size(); ++i) difference |= a[i] ^ b[i];
  return difference == std::byte{0};
}

// "Bearer KEY" to KEY; empty: another scheme.
std::string_view bearer_of(std::string_view authorization) {
  constexpr std::string_view kScheme = "bearer ";
  if (!same_name(authorization.substr(0, kScheme.size()), kScheme)) return {};
  return trimmed(authorization.substr(kScheme.size()));
}

}  // namespace

KeyRing::KeyRing(const std::vector<ApiKey>& keys) {
  for (const ApiKey& key : keys) entries_.push_back({digest_of(key.key), key.cache_namespace});
}

const KeyRing::Entry* KeyRing::find_key(std::string_view key) const {
  const Sha256Digest digest = digest_of(key);
  const Entry* found = nullptr;
  for (const Entry& entry : entries_) {
    if (same_digest(entry.digest, digest)) found = &entry;
  }
  return found;
}

std::optional<std::string> KeyRing::find(const Headers& headers) const {
  std::string_view bearer, x_api_key;
  for (const auto& [name, value] : headers) {
    if (same_name(name, "authorization") && bearer.empty()) bearer = bearer_of(trimmed(value));
    if (same_name(name, "x-api-key") && x_api_key.empty()) x_api_key = trimmed(value);
  }
  const Entry* entry = bearer.empty() ? nullptr : find_key(bearer);
  if (entry == nullptr && !x_api_key.empty()) entry = find_key(x_api_key);
  return entry == nullptr ? std::nullopt : std::optional(entry->cache_namespace);
}

}  // namespace ibid::http
