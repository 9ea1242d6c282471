// Names of the namespaces (SessionOptions::cache_namespace) of an API key. A prefix that was prefilled in one namespace
// is not found in another. Owners of namespaces take turns in the queue and share the budget of known conversations.
// A namespace with a salt (cache_salt of a request) has the same owner as without, so a client gains nothing by
// inventing salts. Pure functions.
#pragma once

#include <string>
#include <string_view>

namespace ibid::serve {

inline constexpr char kMark = '\x1f';  // the names of API keys never contain this byte
inline constexpr std::string_view kSaltMark = "\x1fsalt:";
inline constexpr std::string_view kUserMark = "\x1fuser:";
inline constexpr std::string_view kNameMark = "\x1fname:";

// Returns the namespace of an owner's requests with this salt.
inline std::string salted_namespace(std::string_view owner, std::string_view salt) {
  return std::string(owner).append(kSaltMark).append(salt);
}

// Returns the namespace of one user of a key, if a server separates users. Each user is an owner.
inline std::string user_namespace(std::string_view key_namespace, std::string_view user) {
  return std::string(key_namespace).append(kUserMark).append(user);
}

// Returns the namespace that requests of a key name by the header x-ibid-namespace. Each name is an owner, and has
// users of its own.
inline std::string named_namespace(std::string_view key_namespace, std::string_view name) {
  return std::string(key_namespace).append(kNameMark).append(name);
}

// Returns the namespace of the API key to which a namespace belongs.
inline std::string_view key_of_namespace(std::string_view cache_namespace) {
  return cache_namespace.substr(0, cache_namespace.find(kMark));
}

inline std::string_view owner_of_namespace(std::string_view cache_namespace) {
  return cache_namespace.substr(0, cache_namespace.find(kSaltMark));
}

}  // namespace ibid::serve
