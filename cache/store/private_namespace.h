// PrivateNamespace: a namespace of a store that nobody else can name, because its name is 256 random bits. What was
// inserted into it is forgotten when it is destroyed. Not movable: share it by pointer. The store must outlive it.
// Thread-safe: it never changes, and the store locks.
#pragma once

#include <string>

namespace ibid {

class LruKvCacheStore;

class PrivateNamespace {
 public:
  explicit PrivateNamespace(LruKvCacheStore& store);  // throws std::bad_alloc, as a container would
  ~PrivateNamespace();
  PrivateNamespace(const PrivateNamespace&) = delete;
  PrivateNamespace& operator=(const PrivateNamespace&) = delete;

  const std::string& name() const { return name_; }

 private:
  LruKvCacheStore& store_;
  const std::string name_;
};

}  // namespace ibid
