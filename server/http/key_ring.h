// KeyRing: the API keys of a server, of which only SHA-256 digests are kept. Immutable: any number of threads.
#pragma once

#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "base/sha256.h"
#include "server/http/exchange.h"

namespace ibid::http {

struct ApiKey {
  std::string key;
  std::string cache_namespace;  // whose it is: conversations and keys and values are shared within it
};

class KeyRing {
 public:
  explicit KeyRing(const std::vector<ApiKey>& keys);

  bool empty() const { return entries_.empty(); }
  // The namespace of the key that the request has ("Authorization: Bearer", "x-api-key"); nullopt: it has none that is
  // here. All keys are compared, and all bytes of each, whatever the request has: time tells nothing about keys.
  std::optional<std::string> find(const Headers& headers) const;

 private:
  struct Entry {
    Sha256Digest digest;
    std::string cache_namespace;
  };
  const Entry* find_key(std::string_view key) const;

  std::vector<Entry> entries_;
};

}  // namespace ibid::http
