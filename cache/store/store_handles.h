// Handles on the content of a LruKvCacheStore that hold no pages: PrefixPin prevents the eviction of a prefix,
// IdleSequence is an idle sequence whose pages may be evicted, PrivateNamespace removes its namespace on destruction.
//
// Pins and idle sequences have one owner, and are not thread-safe. The store is thread-safe, and must outlive them.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <string>
#include <utility>

#include "cache/store/prefix_holds.h"
#include "cache/store/store_spaces.h"
#include "ibid/token.h"

namespace ibid {

class LruKvCacheStore;

// Prevents the eviction of a prefix while the object exists. Movable. Has no effect once the prefix was cleared.
class PrefixPin {
 public:
  PrefixPin() = default;
  PrefixPin(PrefixPin&& other) noexcept
      : store_(std::exchange(other.store_, nullptr)), pin_(std::exchange(other.pin_, 0)) {}
  PrefixPin& operator=(PrefixPin&& other) noexcept {
    std::swap(store_, other.store_);
    std::swap(pin_, other.pin_);
    return *this;
  }
  ~PrefixPin();

 private:
  friend class LruKvCacheStore;
  PrefixPin(LruKvCacheStore* store, uint64_t pin) : store_(store), pin_(pin) {}
  LruKvCacheStore* store_ = nullptr;
  uint64_t pin_ = 0;
};

// An idle sequence. Its pages belong to the store and may be evicted, but only after all pages at which no idle
// sequence ends. The handle has the tokens, so that evicted positions can be prefilled again, and a mark in the store's
// tree, so that resuming compares no tokens.
//   insert(.., {.rest = &rest})   makes the positions findable, and marks them
//   make_idle(entry, rest)        empties the entry; only the store holds the pages now
//   wake(rest, entry)             fills the entry with the pages that were not evicted; the mark stays, for make_idle()
// When the mark is removed (the handle is destroyed, or marks another sequence), the pages are evicted like all others.
class IdleSequence {
 public:
  IdleSequence() = default;
  IdleSequence(IdleSequence&& other) noexcept
      : store_(std::exchange(other.store_, nullptr)),
        space_(other.space_),
        mark_(std::move(other.mark_)),
        tokens_(std::exchange(other.tokens_, {})) {}
  IdleSequence& operator=(IdleSequence other) noexcept {
    std::swap(store_, other.store_);
    std::swap(space_, other.space_);
    mark_.swap(other.mark_);
    tokens_.swap(other.tokens_);
    return *this;
  }
  ~IdleSequence() { unmark(); }

  // Tokens of the sequence when it became idle. Empty after wake().
  TokenSpan tokens() const { return tokens_; }
  size_t length() const { return tokens_.size(); }

 private:
  friend class LruKvCacheStore;
  void unmark() noexcept;

  LruKvCacheStore* store_ = nullptr;  // null: the handle has no mark
  SpaceId space_ = kSharedSpace;      // namespace of its states
  std::unique_ptr<PrefixMark> mark_;  // written by the store, under its lock
  Tokens tokens_;
};

// Namespace of a store whose name is 256 random bits, so that no other code can know the name. The destructor removes
// everything that was inserted into the namespace. Not movable: share it by pointer. The store must outlive it.
// Thread-safe: immutable, and the store locks.
class PrivateNamespace {
 public:
  explicit PrivateNamespace(LruKvCacheStore& store);  // throws std::bad_alloc
  ~PrivateNamespace();
  PrivateNamespace(const PrivateNamespace&) = delete;
  PrivateNamespace& operator=(const PrivateNamespace&) = delete;

  const std::string& name() const { return name_; }

 private:
  LruKvCacheStore& store_;
  const std::string name_;
};

}  // namespace ibid
