// The API keys of a server: from a file, and from the environment. Never from the command line, which everybody on the
// machine can read. KeyRing keeps only their SHA-256 digests. Immutable: any number of threads.
#pragma once

#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "base/result.h"
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

namespace ibid::serve {

// A line is a key, or NAME=KEY: keys of one name share conversations and keys and values; a key without a name is alone
// with what it reads. Blank lines and lines that begin with # do not count. A key has 8 to 512 visible characters of
// ASCII, a name [A-Za-z0-9_-]{1,64}.
// Errors: kInvalidArgument with `what` and the line's number, and never a word of a key; kDuplicate.
Result<std::vector<http::ApiKey>> parse_api_keys(std::string_view text, const std::string& what);

// Those of the file (empty path: none) and that of IBID_API_KEY. Errors: those of reading the file, and of parsing.
Result<std::vector<http::ApiKey>> read_api_keys(const std::string& path);

}  // namespace ibid::serve
