#include "runtime/prompt/message_list.h"

#include <gtest/gtest.h>

#include <string>
#include <vector>

#include "sampling/sampler.h"
#include "templates/message.h"

namespace ibid {
namespace {

std::vector<Json> said(std::initializer_list<const char*> texts) {
  std::vector<Json> messages;
  for (const char* text : texts) messages.push_back(make_message(Role::kUser, text));
  return messages;
}

TEST(MessageListTest, PutBackRestoresReplacedMessagesAndStamps) {
  MessageList list;
  for (Json& message : said({"a", "b", "c"})) list.push_back(std::move(message));
  const MessageList before = list;
  MessageList::Tail tail = list.replace_from(1, said({"x"}));
  EXPECT_EQ(list.size(), 2u);
  EXPECT_EQ(*content_of(list.back()), "x");
  EXPECT_EQ(n_common_messages(before.stamps(), list.stamps()), 1u);
  list.put_back(1, std::move(tail));
  EXPECT_EQ(list.json(), before.json());
  EXPECT_EQ(list.stamps(), before.stamps());
}

TEST(MessageListTest, ReplacedMessageOfEqualTextGetsANewStamp) {
  MessageList list;
  list.push_back(make_message(Role::kUser, "a"));
  const MessageList before = list;
  list.replace_from(0, said({"a"}));
  EXPECT_EQ(list.json(), before.json());
  EXPECT_EQ(n_common_messages(before.stamps(), list.stamps()), 0u);
}

TEST(MessageListTest, CopiesShareTheirPrefix) {
  MessageList one;
  for (Json& message : said({"a", "b"})) one.push_back(std::move(message));
  MessageList other = one;
  one.push_back(make_message(Role::kUser, "c"));
  other.push_back(make_message(Role::kUser, "c"));
  EXPECT_EQ(n_common_messages(one.stamps(), other.stamps()), 2u);
}

// After any changes of copied lists, equal stamps at an index mean equal messages up to there.
TEST(MessageListTest, ListsWithEqualStampsHaveEqualPrefixes) {
  for (uint64_t seed = 0; seed < 40; ++seed) {
    uint64_t n = 0;
    const auto next = [&](uint64_t below) { return random_bits(seed, n++) % below; };
    std::vector<MessageList> lists(1);
    for (int step = 0; step < 60; ++step) {
      MessageList list = lists[next(lists.size())];
      const size_t n_kept = next(list.size() + 1);
      std::vector<Json> added;
      for (uint64_t i = next(3); i > 0; --i) added.push_back(make_message(Role::kUser, std::to_string(next(1000))));
      MessageList::Tail tail = list.replace_from(n_kept, std::move(added));
      if (next(4) == 0) list.put_back(n_kept, std::move(tail));
      for (const MessageList& other : lists) {
        const size_t n_common = n_common_messages(list.stamps(), other.stamps());
        for (size_t i = 0; i < std::min(list.size(), other.size()); ++i) {
          ASSERT_EQ(list.stamps()[i] == other.stamps()[i], i < n_common);
          ASSERT_TRUE(i >= n_common || list[i] == other[i]);
        }
      }
      lists.push_back(std::move(list));
    }
  }
}

}  // namespace
}  // namespace ibid
