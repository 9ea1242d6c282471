// Every call to the file system fails once. The store returns an error or the right result, and after reopening it has
// the state before a change or after it, and never a partial one.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <future>
#include <thread>

#include "server/store/conversation_store.h"
#include "tests/server/store/faulty_vfs.h"
#include "tests/support/temp_dir.h"

namespace ibid::serve {
namespace {

using StorePtr = std::unique_ptr<ConversationStore>;
using Step = std::function<Status(ConversationStore&)>;

Json items_of(std::initializer_list<const char*> ids) {
  Json items = Json::array();
  for (const char* id : ids) items.push_back({{"id", id}, {"text", std::string(6000, 'x')}});
  return items;
}

// The changes of a scenario, each of which must be atomic.
std::vector<Step> steps() {
  return {
      [](ConversationStore& store) { return store.put_response("us", {.id = "a", .items = items_of({"1"})}); },
      [](ConversationStore& store) {
        return store.put_response(
            "us", {.id = "b", .previous_id = "a", .in_front = items_of({"1"}), .items = items_of({"2"})});
      },
      [](ConversationStore& store) { return store.create_conversation("us", {.id = "c", .items = items_of({"3"})}); },
      [](ConversationStore& store) -> Status {
        TRY_ASSIGN(const auto taken, store.take_conversation("us", "c"));
        return taken->commit(items_of({"3", "4"}));
      },
      [](ConversationStore& store) {
        return store.put_history(holder_of("us"),
                                 {.name = "h", .text = std::string(9000, 'h'), .hashes = {1, 2, 3}, .first = 1});
      },
      [](ConversationStore& store) { return store.remove_response("us", "a"); },
      [](ConversationStore& store) {
        return store.set_metadata("us", "c", {{"m", 1}});
      },
      [](ConversationStore& store) { return store.remove_response("us", "b"); },
      // An entry of another owner fills the budget, so an entry of "us", the owner with the most bytes, is evicted.
      [](ConversationStore& store) {
        return store.create_conversation("them", {.id = "large", .items = items_of({"5", "6", "7", "8"})});
      },
  };
}

// The whole content of the store; no read has failed.
std::string all_of(ConversationStore& store) {
  Json all = Json::array();
  for (const char* id : {"a", "b", "kept"}) {
    const Result<StoredResponse> found = store.find_response("us", id);
    EXPECT_TRUE(found.ok() || found.status().code() == ErrorCode::kNotFound) << found.status().message();
    all.push_back(found.ok() ? Json::array({found->in_front, found->items}) : Json());
  }
  for (const char* space : {"us", "them"}) {
    const Result<StoredConversation> found = store.find_conversation(space, *space == 'u' ? "c" : "large");
    EXPECT_TRUE(found.ok() || found.status().code() == ErrorCode::kNotFound) << found.status().message();
    all.push_back(found.ok() ? Json::array({found->items, found->metadata}) : Json());
  }
  const std::vector<uint64_t> hashes = {1, 2, 3};
  const auto history = store.find_history(holder_of("us"), hashes, 0);
  EXPECT_TRUE(history.ok()) << history.status().message();
  all.push_back(history.ok() && *history ? Json((*history)->n) : Json());
  const Result<std::string> text = store.read_history(holder_of("us"), "h");
  EXPECT_TRUE(text.ok() || text.status().code() == ErrorCode::kNotFound) << text.status().message();
  EXPECT_EQ(text.ok(), history.ok() && history->has_value()) << "a history and its places change together";
  all.push_back(text.ok() ? Json(*text) : Json());
  all.push_back(store.bytes().value());
  return json_to_string(all);
}

enum class Fault { kOnce, kFullDisk, kKilled };

class StoreFaults : public testing::TestWithParam<Fault> {
 protected:
  static constexpr uint64_t kBudget = 50'000;

  Result<StorePtr> open(const TempDir& dir) {
    return ConversationStore::open({.directory = dir.file("cache"),
                                    .budget_bytes = kBudget,
                                    .remark = [this](const std::string& line) { remarks_.push_back(line); },
                                    .vfs = vfs_.name()});
  }
  // Creates a directory with a store that has an entry.
  void begin(const TempDir& dir) {
    StorePtr store = open(dir).value();
    ASSERT_TRUE(store->put_response("us", {.id = "kept", .items = items_of({"0"})}).ok());
  }
  // Returns the states after the first n steps without a fault, for each n. A read counts as a use, so reads come last.
  std::vector<std::string> states() {
    const std::vector<Step> all = steps();
    std::vector<std::string> states;
    for (size_t n = 0; n <= all.size(); ++n) {
      const TempDir dir;
      begin(dir);
      StorePtr store = open(dir).value();
      for (size_t i = 0; i < n; ++i) {
        const Status status = all[i](*store);
        EXPECT_TRUE(status.ok()) << status.message();
      }
      states.push_back(all_of(*store));
    }
    return states;
  }

  FaultyVfs vfs_;
  std::vector<std::string> remarks_;
};

INSTANTIATE_TEST_SUITE_P(Kinds, StoreFaults, testing::Values(Fault::kOnce, Fault::kFullDisk, Fault::kKilled));

TEST_P(StoreFaults, FaultLeavesAChangeAppliedCompletelyOrNotAtAll) {
  const std::vector<std::string> expected = states();
  const std::vector<Step> all = steps();
  int n_failed = 0;
  for (int nth = 0;; ++nth) {
    const TempDir dir;
    begin(dir);
    vfs_.fail_call(nth, GetParam() == Fault::kFullDisk, GetParam() == Fault::kKilled);
    size_t n_done = 0;
    bool has_ended = false;
    {
      Result<StorePtr> store = open(dir);
      if (!store.ok()) {
        EXPECT_TRUE(vfs_.has_failed()) << store.status().message();
        EXPECT_EQ(store.status().code(), ErrorCode::kIo) << store.status().message();
        EXPECT_THAT(store.status().message(), testing::HasSubstr("conversations.sqlite3"));
      }
      for (; store.ok() && n_done < all.size(); ++n_done) {
        const Status status = all[n_done](**store);
        if (status.ok()) continue;
        EXPECT_EQ(status.code(), ErrorCode::kIo) << status.message();
        EXPECT_THAT(status.message(), testing::HasSubstr("conversations.sqlite3"));
        break;
      }
      has_ended = !vfs_.has_failed();
      if (GetParam() != Fault::kKilled) {
        vfs_.recover();
        if (store.ok()) {
          EXPECT_EQ(all_of(**store), expected[n_done]) << "an error changes nothing; call " << nth;
        }
      }
    }
    vfs_.recover();
    Result<StorePtr> again = open(dir);
    ASSERT_TRUE(again.ok()) << again.status().message();
    const std::string now = all_of(**again);
    EXPECT_TRUE(now == expected[n_done] || (n_done < all.size() && now == expected[n_done + 1])) << "call " << nth;
    EXPECT_THAT(remarks_, testing::IsEmpty()) << "nothing is damaged";
    // The store can be changed again too.
    EXPECT_TRUE((*again)->create_conversation("them", {.id = "more"}).ok());
    if (has_ended) break;
    ++n_failed;
    ASSERT_FALSE(HasFailure()) << "call " << nth;
  }
  EXPECT_GT(n_failed, 20);
}

// Planning threads and handler threads read while a change waits for the disk.
TEST(SlowDisk, SlowDiskDoesNotBlockReaders) {
  const TempDir dir;
  FaultyVfs vfs;
  const StorePtr store = ConversationStore::open({.directory = dir.file("cache"), .vfs = vfs.name()}).value();
  const std::vector<uint64_t> hashes = {1};
  ASSERT_TRUE(store->put_history(holder_of("us"), {.name = "h", .text = "text", .hashes = hashes, .first = 1}).ok());
  ASSERT_TRUE(store->put_response("us", {.id = "a", .items = items_of({"1"})}).ok());
  ASSERT_TRUE(store->create_conversation("us", {.id = "b"}).ok());
  std::promise<void> writes, goes_on;
  bool is_first = true;
  vfs.before_write = [&, wait = goes_on.get_future().share()] {
    if (std::exchange(is_first, false)) writes.set_value();
    wait.wait();
  };
  std::thread other([&] { EXPECT_TRUE(store->create_conversation("us", {.id = "c"}).ok()); });
  writes.get_future().wait();
  EXPECT_TRUE(store->find_history(holder_of("us"), hashes, 0)->has_value());
  EXPECT_EQ(store->read_history(holder_of("us"), "h").value(), "text");
  EXPECT_EQ(store->find_response("us", "a")->items, items_of({"1"}));
  EXPECT_EQ(store->find_item("us", "1").value(), items_of({"1"})[0]);
  EXPECT_TRUE(store->find_conversation("us", "b").ok());
  EXPECT_TRUE(store->take_conversation("us", "b").ok());
  EXPECT_EQ(store->stats().n_kept, 1u);
  EXPECT_TRUE(store->bytes().ok());
  goes_on.set_value();
  other.join();
}

}  // namespace
}  // namespace ibid::serve
