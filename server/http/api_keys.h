// The API keys of a server, from a file and from the environment. There is no option for keys, because every user of
// the machine can see a command line.
#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "base/result.h"

namespace ibid::http {

struct ApiKey {
  std::string key;
  std::string cache_namespace;    // requests of one namespace share conversations and KV
  bool names_namespaces = false;  // the key's requests may name a namespace within cache_namespace
};

}  // namespace ibid::http

namespace ibid::serve {

// Parses a key file. A line is a key, or NAME=KEY; the word "namespaces" may follow (ApiKey::names_namespaces). Keys
// with the same name share conversations and KV; a key without a name shares them with no other key. Blank lines and
// lines that begin with # are ignored. A key has 8 to 512 visible ASCII characters, a name [A-Za-z0-9_-]{1,64}. Errors:
// kInvalidArgument with `what` and the line number, and no part of a key; kDuplicate.
Result<std::vector<http::ApiKey>> parse_api_keys(std::string_view text, const std::string& what);

// Returns the keys of the file (empty path: no file) and of the environment variable IBID_API_KEY. Errors: those of
// reading and parsing the file.
Result<std::vector<http::ApiKey>> read_api_keys(const std::string& path);

}  // namespace ibid::serve
