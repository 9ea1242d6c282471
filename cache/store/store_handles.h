// Handles on the content of a LruKvCacheStore that hold no pages: PrefixPin keeps a prefix from being evicted;
// KvAtRest is a sequence at rest, whose pages may be evicted.
//
// A handle belongs to one owner at a time and is not thread-safe. The store is, and must outlive it.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <utility>

#include "cache/store/prefix_holds.h"
#include "cache/store/store_spaces.h"
#include "ibid/token.h"

namespace ibid {

class LruKvCacheStore;

// Keeps a prefix from being evicted while it lives. Movable. Void once the prefix was cleared.
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

// A sequence that nobody computes on at the moment. Its rows belong to the store alone and may be evicted, but only
// after everything that no sequence stands on. The handle has the ids, which say what to read again when rows are
// gone, and a mark in the store's tree, so that taking the sequence up again compares no id.
//
//   insert(.., {.rest = &rest})   its rows can be found from now on, and are marked
//   put_to_rest(entry, rest)      the entry is empty, its pages are the store's alone
//   wake(rest, entry)             the entry holds what is still there; the mark stays, for the way back
//
// When the mark goes (the handle dies, or marks another sequence) its pages are like all others.
class KvAtRest {
 public:
  KvAtRest() = default;
  KvAtRest(KvAtRest&& other) noexcept
      : store_(std::exchange(other.store_, nullptr)),
        space_(other.space_),
        mark_(std::move(other.mark_)),
        tokens_(std::exchange(other.tokens_, {})) {}
  KvAtRest& operator=(KvAtRest other) noexcept {
    std::swap(store_, other.store_);
    std::swap(space_, other.space_);
    mark_.swap(other.mark_);
    tokens_.swap(other.tokens_);
    return *this;
  }
  ~KvAtRest() { unmark(); }

  // The ids of the sequence: all that had rows when it came to rest. Empty while it is awake.
  TokenSpan tokens() const { return tokens_; }
  size_t length() const { return tokens_.size(); }

 private:
  friend class LruKvCacheStore;
  void unmark() noexcept;

  LruKvCacheStore* store_ = nullptr;  // null: without a mark
  SpaceId space_ = kSharedSpace;      // where its states are
  std::unique_ptr<PrefixMark> mark_;  // the store changes it, under its lock
  Tokens tokens_;
};

}  // namespace ibid
