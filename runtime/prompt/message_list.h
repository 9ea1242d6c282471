// MessageList: the messages of a conversation, each with a stamp, so that two states of a conversation can be compared
// without comparing text.
//
// A message gets a unique number as stamp when it is added to a list. Lists change only at their end, so two lists with
// the same stamp at an index have the same messages up to there. Comparing remembered stamps with the current ones
// finds every change since, without notifications.
//
// A value: a copy has the same stamps. Not thread-safe.
#pragma once

#include <cstddef>
#include <cstdint>
#include <vector>

#include "base/json_limits.h"

namespace ibid {

using MessageStamps = std::vector<uint64_t>;  // one stamp per message, ascending

class MessageList {
 public:
  MessageList() = default;
  // `messages`: a JSON array. May throw std::bad_alloc.
  explicit MessageList(Json messages);

  const Json& json() const { return messages_; }
  const MessageStamps& stamps() const { return stamps_; }
  size_t size() const { return messages_.size(); }
  bool empty() const { return messages_.empty(); }
  const Json& operator[](size_t i) const { return messages_[i]; }
  const Json& back() const { return messages_.back(); }

  // The last messages of a list, removed from it, with their stamps.
  struct Tail {
    std::vector<Json> messages;
    MessageStamps stamps;
  };

  // Appends a message. std::bad_alloc: nothing has changed.
  void push_back(Json message);
  // Replaces the messages from n_kept on by `added`, and returns the replaced messages. std::bad_alloc: nothing has
  // changed. REQUIRES: n_kept <= size().
  Tail replace_from(size_t n_kept, std::vector<Json> added);
  // Undoes replace_from(n_kept). Does not allocate, because the list has had this length before.
  void put_back(size_t n_kept, Tail tail) noexcept;

 private:
  // Reserves memory for n messages.
  void reserve(size_t n);

  Json messages_ = Json::array();
  MessageStamps stamps_;
};

// The number of leading messages that two lists have in common. O(log).
size_t n_common_messages(const MessageStamps& a, const MessageStamps& b);

}  // namespace ibid
