#include "cache/store/private_namespace.h"

#include <unistd.h>

#include "base/check.h"
#include "cache/store/lru_kv_cache_store.h"

namespace ibid {
namespace {

std::string random_name() {
  std::string name(32, '\0');
  // So few bytes come at once; the call cannot be interrupted.
  CHECK(getentropy(name.data(), name.size()) == 0) << "the system has no random numbers";
  return name;
}

}  // namespace

PrivateNamespace::PrivateNamespace(LruKvCacheStore& store) : store_(store), name_(random_name()) {}

PrivateNamespace::~PrivateNamespace() { store_.clear(name_); }

}  // namespace ibid
