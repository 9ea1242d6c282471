// Names of the namespaces (SessionOptions::cache_namespace) of an API key. Prefixes that were read in one namespace are
// not found in another. A namespace's owner takes turns in the queue, and has a share of the known conversations: a
// client that invents salts gets no more of the server by them. Pure functions.
#pragma once

#include <algorithm>
#include <string>
#include <string_view>

namespace ibid::serve {

inline constexpr std::string_view kSaltMark = "\x1fsalt:";  // no name of a key contains this byte
inline constexpr std::string_view kUserMark = "\x1fuser:";

// The namespace of an owner's requests with that salt.
inline std::string salted_namespace(std::string_view owner, std::string_view salt) {
  return std::string(owner).append(kSaltMark).append(salt);
}

// The namespace of one user of a key, where a server distinguishes users. Each user is an owner.
inline std::string user_namespace(std::string_view key_namespace, std::string_view user) {
  return std::string(key_namespace).append(kUserMark).append(user);
}

// The namespace of the key that a namespace lies within.
inline std::string_view key_of_namespace(std::string_view cache_namespace) {
  return cache_namespace.substr(0, std::min(cache_namespace.find(kUserMark), cache_namespace.find(kSaltMark)));
}

inline std::string_view owner_of_namespace(std::string_view cache_namespace) {
  return cache_namespace.substr(0, cache_namespace.find(kSaltMark));
}

}  // namespace ibid::serve
