// The laws of ConversationStore in each of its homes, in comparison with a naive implementation, and with several
// programs; then damage, versions and access of the database file.
#include "server/store/conversation_store.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <filesystem>
#include <map>
#include <random>
#include <thread>
#include <tuple>

#include "server/store/cache_namespace.h"
#include "tests/server/store/store_homes.h"
#include "tests/support/temp_dir.h"

namespace ibid::serve {
namespace {

StorePtr open_in(const TempDir& dir, uint64_t budget_bytes = 1u << 20, std::vector<std::string>* remarks = nullptr) {
  ConversationStore::Options options{.directory = dir.file("cache"), .budget_bytes = budget_bytes};
  if (remarks != nullptr) options.remark = [remarks](const std::string& line) { remarks->push_back(line); };
  return ConversationStore::open_or_in_memory(std::move(options));
}

// All entries in one list, which is searched for everything.
struct Naive {
  struct Entry {
    int kind = 0;
    std::string space, name, previous;
    Json items, body;
    size_t used = 0;
    bool is_gone = false;
    size_t n_places = 0;
    size_t bytes() const {
      const std::string more = kind == 3 ? items.get<std::string>() : json_to_string(items);
      const std::string text = kind == 2 ? json_to_string(body) : body.is_string() ? body.get<std::string>() : "";
      return 512 + name.size() + more.size() + text.size() + 48 * n_places;
    }
  };
  size_t budget = 0, n_used = 0;
  bool has_had_equal = false;  // of two groups with equal bytes one has lost an entry
  std::vector<Entry> entries;

  Entry* find(int kind, const std::string& space, const std::string& name, bool gone_too = false) {
    for (Entry& entry : entries) {
      if (entry.kind == kind && entry.space == space && entry.name == name && (gone_too || !entry.is_gone))
        return &entry;
    }
    return nullptr;
  }
  size_t bytes() const {
    size_t n = 0;
    for (const Entry& entry : entries) n += entry.bytes();
    return n;
  }
  void sweep() {
    for (bool changed = true; changed;) {
      changed = false;
      for (size_t i = 0; i < entries.size() && !changed; ++i) {
        const Entry& old = entries[i];
        const bool is_needed = std::ranges::any_of(entries, [&](const Entry& later) {
          return later.kind == 1 && later.space == old.space && later.previous == old.name;
        });
        if (!old.is_gone || is_needed) continue;
        entries.erase(entries.begin() + static_cast<std::ptrdiff_t>(i));
        changed = true;
      }
    }
  }
  // Returns the group whose counted entries have the most bytes; of equal ones, the one with the smallest digest.
  template <typename Group>
  std::string largest(const Group& group, const std::function<bool(const Entry&)>& counts) {
    std::map<std::string, size_t> sums;
    for (const Entry& entry : entries) {
      if (counts(entry)) sums[group(entry)] += entry.bytes();
    }
    const auto most = std::ranges::max_element(sums, {}, [](const auto& one) { return one.second; });
    for (const auto& [name, sum] : sums) {
      has_had_equal |= name != most->first && sum == most->second;
    }
    return most->first;
  }
  void remove(Entry* entry) {
    if (entry->kind == 1) {
      entry->is_gone = true;
      return sweep();
    }
    entries.erase(entries.begin() + (entry - entries.data()));
  }
  // Returns false if the entry does not fit; everything is as in `before` then.
  bool make_room(std::vector<Entry> before, const std::string& space, const std::string& name, int kind) {
    while (bytes() > budget) {
      const auto key = [](const Entry& one) { return holder_of(one.space).key; };
      const auto owner = [](const Entry& one) { return holder_of(one.space).owner; };
      const std::string most = largest(key, [](const Entry&) { return true; });
      const std::string whose = largest(owner, [&](const Entry& one) { return key(one) == most; });
      const auto oldest_of = [&](const std::function<bool(const Entry&)>& counts) {
        Entry* oldest = nullptr;
        for (Entry& entry : entries) {
          const bool is_it = entry.space == space && entry.name == name && entry.kind == kind;
          if (is_it || entry.is_gone || !counts(entry)) continue;
          if (oldest == nullptr || entry.used < oldest->used) oldest = &entry;
        }
        return oldest;
      };
      Entry* oldest = oldest_of([&](const Entry& one) { return owner(one) == whose && key(one) == most; });
      if (oldest == nullptr) oldest = oldest_of([&](const Entry& one) { return key(one) == most; });
      if (oldest == nullptr) {
        entries = std::move(before);
        return false;
      }
      remove(oldest);
    }
    return true;
  }
  bool put(Entry entry) {
    std::vector<Entry> before = entries;
    std::erase_if(entries, [&](const Entry& old) {
      return old.kind == entry.kind && old.space == entry.space && old.name == entry.name;
    });
    entry.used = ++n_used;
    entries.push_back(entry);
    return make_room(std::move(before), entry.space, entry.name, entry.kind);
  }
};

class Scripts : public testing::TestWithParam<std::tuple<Home, int>> {
 protected:
  void SetUp() override {
    if (!home_.is_there()) GTEST_SKIP() << "redis-server is not installed (Debian: redis-server)";
  }
  size_t below(size_t n) { return random_() % n; }
  std::string text() { return std::string(below(900), static_cast<char>('a' + below(26))); }
  std::string id() { return "id" + std::to_string(below(7)); }
  std::string space() {
    const std::string key = "key" + std::to_string(below(3));
    if (below(3) == 0) return key;
    return below(2) == 0 ? user_namespace(key, "u" + std::to_string(below(2))) : salted_namespace(key, "salt");
  }

  void respond(const std::string& space) {
    const std::string name = "r" + id(), previous = below(2) == 0 ? "" : "r" + id();
    if (name == previous) return;
    const Naive::Entry* before = naive_.find(1, space, previous);
    // A response that continues another one has all items before it.
    Json in_front = Json::array();
    if (before != nullptr) in_front = all_items(store_->find_response(space, previous).value());
    if (before != nullptr) naive_.find(1, space, previous)->used = ++naive_.n_used;
    // Replacing a response would change those that continue it.
    if (naive_.find(1, space, name, true) != nullptr) return;
    Json items = Json::array({item("i" + std::to_string(naive_.n_used), text())});
    StoredResponse one = response(name, items, before == nullptr ? "" : previous);
    one.in_front = in_front;
    const bool fits = naive_.put(
        {.kind = 1, .space = space, .name = name, .previous = one.previous_id, .items = items, .body = "{}"});
    const Status status = store_->put_response(space, one);
    EXPECT_EQ(status.code(), fits ? ErrorCode::kOk : ErrorCode::kLimitExceeded) << status.message();
    for (const Json& more : items) in_front.push_back(more);
    if (fits) chains_[space + name] = in_front;
  }
  void check_response(const std::string& space) {
    const std::string name = "r" + id();
    Naive::Entry* entry = naive_.find(1, space, name);
    const Result<StoredResponse> found = store_->find_response(space, name);
    ASSERT_EQ(found.ok(), entry != nullptr) << found.status().message();
    if (entry == nullptr) return;
    entry->used = ++naive_.n_used;
    EXPECT_EQ(all_items(*found), chains_[space + name]);
    EXPECT_EQ(store_->find_item(space, found->items[0]["id"].get<std::string>()).value(), found->items[0]);
  }
  void converse(const std::string& space) {
    const std::string name = "c" + id();
    Naive::Entry* entry = naive_.find(2, space, name);
    if (entry == nullptr) {
      EXPECT_EQ(store_->take_conversation(space, name).status().code(), ErrorCode::kNotFound);
      const Json items = Json::array({item("a", text())});
      const bool fits = naive_.put({.kind = 2, .space = space, .name = name, .items = items, .body = Json::object()});
      const Status status = store_->create_conversation(space, {.id = name, .items = items});
      EXPECT_EQ(status.code(), fits ? ErrorCode::kOk : ErrorCode::kLimitExceeded) << status.message();
      return;
    }
    const auto taken = store_->take_conversation(space, name);
    ASSERT_TRUE(taken.ok()) << taken.status().message();
    entry->used = ++naive_.n_used;
    EXPECT_EQ((*taken)->conversation().items, entry->items);
    if (below(3) == 0) return;
    std::vector<Naive::Entry> before = naive_.entries;
    entry->items.push_back(item("b", text()));
    entry->used = ++naive_.n_used;
    const Json items = entry->items;
    const bool fits = naive_.make_room(std::move(before), space, name, 2);
    EXPECT_EQ((*taken)->commit(items).code(), fits ? ErrorCode::kOk : ErrorCode::kLimitExceeded);
  }
  void keep_history(const std::string& space) {
    const std::string name = "h" + id();
    const std::vector<uint64_t> hashes = {below(1u << 30), below(1u << 30)};
    const std::string text = this->text();
    const bool fits =
        naive_.put({.kind = 3, .space = space, .name = name, .items = text, .body = Json(), .n_places = 2});
    const Status status =
        store_->put_history(holder_of(space), {.name = name, .text = text, .hashes = hashes, .first = 2});
    EXPECT_EQ(status.code(), fits ? ErrorCode::kOk : ErrorCode::kLimitExceeded) << status.message();
    if (!fits) return;
    EXPECT_FALSE(store_->find_history(holder_of(space), std::span(hashes).first(1), 0)->has_value());
    EXPECT_FALSE(store_->find_history(holder_of(space), hashes, 2)->has_value());
    const auto found = store_->find_history(holder_of(space), hashes, 0);
    ASSERT_TRUE(found->has_value());
    EXPECT_EQ((*found)->name, name);
    EXPECT_EQ(store_->read_history(holder_of(space), name).value(), text);
    EXPECT_FALSE(store_->find_history(holder_of("another"), hashes, 0)->has_value());
  }
  void remove(const std::string& space) {
    const std::string name = id();
    Naive::Entry* one = naive_.find(1, space, "r" + name);
    EXPECT_EQ(store_->remove_response(space, "r" + name).ok(), one != nullptr);
    if (one != nullptr) naive_.remove(one);
    Naive::Entry* other = naive_.find(2, space, "c" + name);
    EXPECT_EQ(store_->remove_conversation(space, "c" + name).ok(), other != nullptr);
    if (other != nullptr) naive_.remove(other);
  }
  void forget(const std::string& space) {
    EXPECT_TRUE(store_->forget(space).ok());
    std::erase_if(naive_.entries, [&](const Naive::Entry& entry) { return entry.space == space; });
  }

  StoreHome home_{std::get<0>(GetParam())};
  std::mt19937 random_{static_cast<unsigned>(std::get<1>(GetParam()))};
  Naive naive_;
  StorePtr store_;
  std::map<std::string, Json> chains_;
};

INSTANTIATE_TEST_SUITE_P(Homes, Scripts,
                         testing::Combine(testing::Values(Home::kMemory, Home::kFile, Home::kFakeServer, Home::kRedis),
                                          testing::Range(0, 6)));

TEST_P(Scripts, StoreBehavesAsANaiveStoreInRandomScripts) {
  naive_.budget = 6'000 + below(20'000);
  const auto open = [&] { return home_.open(naive_.budget); };
  store_ = open();
  for (int step = 0; step < 400; ++step) {
    const std::string space = this->space();
    switch (below(16)) {
      case 0: forget(space); break;
      case 1:
      case 2: remove(space); break;
      case 3:
      case 4:
      case 5: keep_history(space); break;
      case 6:
      case 7:
      case 8: converse(space); break;
      case 9:
      case 10: check_response(space); break;
      case 11:
        if (home_.is_shared()) store_ = nullptr, store_ = open();
        break;
      default: respond(space);
    }
    // A server orders such groups by hidden names.
    if (naive_.has_had_equal && home_.is_server()) return;
    ASSERT_EQ(store_->bytes().value(), naive_.bytes()) << step;
    ASSERT_LE(naive_.bytes(), naive_.budget);
    ASSERT_FALSE(HasFailure()) << step;
  }
}

using ConversationStoreTest = InEachHome;
INSTANTIATE_TEST_SUITE_P(Homes, ConversationStoreTest,
                         testing::Values(Home::kMemory, Home::kFile, Home::kFakeServer, Home::kRedis));

TEST_P(ConversationStoreTest, ChainOfResponsesStoresOnlyNewItemsAndSurvivesRemovals) {
  const StorePtr store = home_.open(1u << 30);
  Json in_front = Json::array();
  for (size_t i = 0; i < 300; ++i) {
    const std::string id = "c" + std::to_string(i), before = i == 0 ? "" : "c" + std::to_string(i - 1);
    StoredResponse one = response(id, Json::array({item("m" + std::to_string(i))}), before);
    one.in_front = in_front;
    ASSERT_TRUE(store->put_response("us", one).ok());
    in_front.push_back(one.items[0]);
    ASSERT_EQ(all_items(store->find_response("us", id).value()).size(), i + 1);
    if (i > 0) {
      ASSERT_TRUE(store->remove_response("us", before).ok());
    }
  }
  EXPECT_LT(store->bytes().value(), 300u * 1000);
  EXPECT_EQ(all_items(store->find_response("us", "c299").value()), in_front);
  ASSERT_TRUE(store->remove_response("us", "c299").ok());
  EXPECT_EQ(store->bytes().value(), 0u) << "no response continues the others any more";
}

// The previous response is removed while the answer that continues it is computed.
TEST_P(ConversationStoreTest, ResponseKeepsItemsOfARemovedPreviousResponse) {
  const StorePtr store = home_.open(1u << 20);
  StoredResponse one = response("b", Json::array({item("2")}), "a");
  one.in_front = Json::array({item("1")});
  ASSERT_TRUE(store->put_response("us", one).ok());
  EXPECT_EQ(all_items(store->find_response("us", "b").value()), Json::array({item("1"), item("2")}));
}

TEST_P(ConversationStoreTest, ResponsesAreBoundedAndLeastRecentlyUsedIsEvicted) {
  const StorePtr store = home_.open(10'000);
  const auto put = [&](const std::string& id, size_t n) {
    return store->put_response("us", response(id, Json::array({item(id, std::string(n, 'x'))})));
  };
  for (int i = 0; i < 100; ++i) {
    ASSERT_TRUE(put("r" + std::to_string(i), 1000).ok());
    EXPECT_LE(store->bytes().value(), 10'000u);
  }
  EXPECT_FALSE(store->find_response("us", "r0").ok());
  EXPECT_TRUE(store->find_response("us", "r99").ok());
  EXPECT_EQ(put("large", 20'000).code(), ErrorCode::kLimitExceeded);
  EXPECT_FALSE(store->find_response("us", "large").ok());
  EXPECT_TRUE(store->find_response("us", "r99").ok()) << "nothing else was evicted for it";
}

TEST_P(ConversationStoreTest, ConversationThatGrowsTooLargeStaysUnchanged) {
  const StorePtr store = home_.open(5'000);
  ASSERT_TRUE(
      store->create_conversation("us", {.id = "a", .items = Json::array({item("1", std::string(2000, 'x'))})}).ok());
  const auto taken = store->take_conversation("us", "a");
  EXPECT_EQ(store->take_conversation("us", "a").status().code(), ErrorCode::kBusy);
  EXPECT_EQ((*taken)->commit(Json::array({item("1", std::string(4900, 'x'))})).code(), ErrorCode::kLimitExceeded);
  EXPECT_EQ(store->find_conversation("us", "a")->items[0]["text"].get<std::string>().size(), 2000u);
  EXPECT_TRUE(store->take_conversation("us", "a").ok()) << "the lock was released";
}

TEST_P(ConversationStoreTest, CommitAfterRemovalStoresNothing) {
  const StorePtr store = home_.open(1u << 20);
  ASSERT_TRUE(store->create_conversation("us", {.id = "a"}).ok());
  const auto taken = store->take_conversation("us", "a");
  ASSERT_TRUE(store->remove_conversation("us", "a").ok());
  EXPECT_TRUE((*taken)->commit(Json::array({item("1")})).ok());
  EXPECT_EQ(store->find_conversation("us", "a").status().code(), ErrorCode::kNotFound);
}

// An owner that fills the budget loses its own entries, however old the others' are.
TEST_P(ConversationStoreTest, OwnersCannotEvictEachOthersEntries) {
  const StorePtr store = home_.open(20'000);
  ASSERT_TRUE(store->create_conversation("small", {.id = "mine", .items = Json::array({item("1", "kept")})}).ok());
  const std::string user = user_namespace("large", "quiet");
  ASSERT_TRUE(store->create_conversation(user, {.id = "his"}).ok());
  for (int i = 0; i < 200; ++i) {
    const std::string name = user_namespace("large", "loud");
    ASSERT_TRUE(store
                    ->put_response(salted_namespace(name, std::to_string(i)),
                                   response("r" + std::to_string(i), Json::array({item("x", std::string(900, 'x'))})))
                    .ok());
  }
  EXPECT_TRUE(store->find_conversation("small", "mine").ok());
  EXPECT_TRUE(store->find_conversation(user, "his").ok());
}

TEST_P(ConversationStoreTest, UsersOfAKeyShareItsBudget) {
  const StorePtr store = home_.open(20'000);
  for (int i = 0; i < 8; ++i) {
    ASSERT_TRUE(store->create_conversation("them", {.id = std::to_string(i)}).ok());
  }
  for (int i = 0; i < 100; ++i) {
    ASSERT_TRUE(store->create_conversation(user_namespace("us", std::to_string(i)), {.id = "one"}).ok());
  }
  for (int i = 0; i < 8; ++i) EXPECT_TRUE(store->find_conversation("them", std::to_string(i)).ok());
}

// --- several programs

using SharedStoreTest = InEachHome;
INSTANTIATE_TEST_SUITE_P(Homes, SharedStoreTest, testing::Values(Home::kFile, Home::kFakeServer, Home::kRedis));

TEST_P(SharedStoreTest, TwoProgramsUseTheStoreAtOnce) {
  const StorePtr first = home_.open(), second = home_.open();
  EXPECT_EQ(first->hash_seed(), second->hash_seed());
  constexpr int kEach = 60;
  const auto write = [](ConversationStore& store, const std::string& prefix) {
    for (int i = 0; i < kEach; ++i) {
      EXPECT_TRUE(store.create_conversation("us", {.id = prefix + std::to_string(i)}).ok());
      EXPECT_TRUE(store.find_conversation("us", prefix + std::to_string(i / 2)).ok());
    }
  };
  std::thread other([&] { write(*first, "a"); });
  write(*second, "b");
  other.join();
  for (int i = 0; i < kEach; ++i) {
    EXPECT_TRUE(second->find_conversation("us", "a" + std::to_string(i)).ok());
    EXPECT_TRUE(first->find_conversation("us", "b" + std::to_string(i)).ok());
  }
  EXPECT_EQ(first->bytes().value(), second->bytes().value());
}

// The second commit fails, and nothing of the first is lost or mixed with it.
TEST_P(SharedStoreTest, FirstOfTwoChangesOfAConversationIsKept) {
  const StorePtr first = home_.open(), second = home_.open();
  ASSERT_TRUE(first->create_conversation("us", {.id = "a"}).ok());
  const auto mine = first->take_conversation("us", "a"), theirs = second->take_conversation("us", "a");
  EXPECT_TRUE((*mine)->commit(Json::array({item("1")})).ok());
  EXPECT_EQ((*theirs)->commit(Json::array({item("2")})).code(), ErrorCode::kBusy);
  EXPECT_EQ(second->find_conversation("us", "a")->items, Json::array({item("1")}));
  const auto again = second->take_conversation("us", "a");
  EXPECT_TRUE((*again)->commit(Json::array({item("1"), item("2")})).ok());
  EXPECT_EQ(first->find_conversation("us", "a")->items.size(), 2u);
}

TEST_P(SharedStoreTest, EntriesOfOneProgramAreFoundAndRemovedByTheOther) {
  const StorePtr first = home_.open(), second = home_.open();
  const std::vector<uint64_t> hashes = {1, 2, 3};
  ASSERT_TRUE(first->put_response("us", response("a", Json::array({item("1")}))).ok());
  StoredResponse next = response("b", Json::array({item("2")}), "a");
  next.in_front = Json::array({item("1")});
  ASSERT_TRUE(second->put_response("us", next).ok()) << "the other node continues it";
  ASSERT_TRUE(first->create_conversation("us", {.id = "c", .metadata = {{"m", 1}}}).ok());
  ASSERT_TRUE(first->put_history(holder_of("us"), {.name = "h", .text = "t", .hashes = hashes, .first = 1}).ok());
  EXPECT_EQ(all_items(first->find_response("us", "b").value()), Json::array({item("1"), item("2")}));
  EXPECT_EQ(second->find_item("us", "1").value(), item("1"));
  EXPECT_EQ(second->find_conversation("us", "c")->metadata["m"], 1);
  const auto found = second->find_history(holder_of("us"), hashes, 1);
  ASSERT_TRUE(found.ok() && found->has_value());
  EXPECT_EQ((*found)->n, 3u);
  EXPECT_EQ(second->read_history(holder_of("us"), "h").value(), "t");
  for (const char* space : {"them", "us\x1fuser:u", "us\x1fsalt:s"}) {
    EXPECT_EQ(second->find_response(space, "b").status().code(), ErrorCode::kNotFound) << space;
    EXPECT_EQ(second->find_conversation(space, "c").status().code(), ErrorCode::kNotFound) << space;
    EXPECT_TRUE(second->find_item(space, "1")->is_null()) << space;
    EXPECT_FALSE(second->find_history(holder_of(space), hashes, 0)->has_value()) << space;
    EXPECT_EQ(second->read_history(holder_of(space), "h").status().code(), ErrorCode::kNotFound) << space;
    EXPECT_EQ(second->remove_response(space, "b").code(), ErrorCode::kNotFound) << space;
    EXPECT_TRUE(second->forget(space).ok()) << space;
  }
  ASSERT_TRUE(second->remove_response("us", "b").ok());
  EXPECT_EQ(first->find_response("us", "b").status().code(), ErrorCode::kNotFound);
  EXPECT_TRUE(first->find_item("us", "2")->is_null());
  EXPECT_TRUE(first->find_response("us", "a").ok());
  ASSERT_TRUE(second->forget("us").ok());
  EXPECT_EQ(first->find_response("us", "a").status().code(), ErrorCode::kNotFound);
  EXPECT_EQ(first->find_conversation("us", "c").status().code(), ErrorCode::kNotFound);
  EXPECT_FALSE(first->find_history(holder_of("us"), hashes, 0)->has_value());
  EXPECT_EQ(first->bytes().value(), 0u);
}

// The text and the prefixes are those of one of the two, never of both.
TEST_P(SharedStoreTest, LastOfTwoWritesOfAHistoryIsKept) {
  const StorePtr first = home_.open(), second = home_.open();
  const auto history = [](uint64_t last) {
    return StoredHistory{.name = "h", .text = std::to_string(last), .hashes = {1, last}, .first = 1};
  };
  const auto write = [&](ConversationStore& store, uint64_t begin) {
    for (uint64_t i = begin; i < begin + 30; ++i) EXPECT_TRUE(store.put_history(holder_of("us"), history(i)).ok());
  };
  std::thread other([&] { write(*first, 100); });
  write(*second, 200);
  other.join();
  const std::string text = second->read_history(holder_of("us"), "h").value();
  for (const uint64_t last : {129u, 229u}) {
    const std::vector<uint64_t> hashes = {1, last};
    const auto found = first->find_history(holder_of("us"), hashes, 1);
    ASSERT_TRUE(found.ok());
    EXPECT_EQ(found->has_value(), text == std::to_string(last)) << last;
  }
  ASSERT_TRUE(second->put_history(holder_of("us"), history(7)).ok());
  EXPECT_EQ(first->read_history(holder_of("us"), "h").value(), "7");
}

// --- the database file

mode_t mode_of(const std::string& path) { return static_cast<mode_t>(std::filesystem::status(path).permissions()); }

TEST(StoreFileTest, StoreFileSurvivesTheProcessAndIsPrivateToItsUser) {
  const TempDir dir;
  const std::string secret = "what nobody else may read";
  {
    const StorePtr store = open_in(dir);
    ASSERT_TRUE(store->is_lasting());
    ASSERT_TRUE(store->create_conversation("sk-key", {.id = "a", .created = 7, .metadata = {{"m", 1}}}).ok());
    ASSERT_TRUE(store->put_response("sk-key", response("r", Json::array({item("1", secret)}))).ok());
    for (const char* ending : {"", "-wal", "-shm"}) {
      EXPECT_EQ(mode_of(dir.file("cache/conversations.sqlite3") + ending), 0600u) << ending;
    }
  }
  const std::string file = dir.file("cache/conversations.sqlite3");
  EXPECT_THAT(read_whole_file(file), testing::HasSubstr(secret));
  EXPECT_THAT(read_whole_file(file), testing::Not(testing::HasSubstr("sk-key"))) << "a namespace may be a key";
  {
    const StorePtr store = open_in(dir);
    EXPECT_EQ(store->find_conversation("sk-key", "a")->created, 7);
    EXPECT_EQ(store->find_conversation("sk-key", "a")->metadata["m"], 1);
    EXPECT_EQ(store->find_response("sk-key", "r")->items[0]["text"], secret);
    ASSERT_TRUE(store->remove_response("sk-key", "r").ok());
  }
  EXPECT_THAT(read_whole_file(file), testing::Not(testing::HasSubstr(secret))) << "removed data is wiped";
}

TEST(StoreFileTest, TwoProcessesOpenANewFileAtOnce) {
  const TempDir dir;
  StorePtr first, second;
  {
    std::thread other([&] { first = open_in(dir); });
    second = open_in(dir);
    other.join();
  }
  ASSERT_TRUE(first->is_lasting() && second->is_lasting());
  EXPECT_EQ(first->hash_seed(), second->hash_seed());
}

TEST(StoreFileTest, ReducedBudgetAppliesAtOnce) {
  const TempDir dir;
  {
    const StorePtr store = open_in(dir);
    for (int i = 0; i < 50; ++i) ASSERT_TRUE(store->create_conversation("us", {.id = std::to_string(i)}).ok());
  }
  const StorePtr store = open_in(dir, 10'000);
  EXPECT_LE(store->bytes().value(), 10'000u);
  EXPECT_TRUE(store->find_conversation("us", "49").ok());
  EXPECT_FALSE(store->find_conversation("us", "0").ok());
}

TEST(StoreFileTest, DamagedFileIsRenamedAndReplaced) {
  const TempDir dir;
  const std::string path = dir.file("cache/conversations.sqlite3");
  open_in(dir);
  std::string sound = read_whole_file(path);
  std::string torn = sound.substr(0, sound.size() / 2), shuffled = sound;
  for (size_t i = 4096; i < shuffled.size(); i += 2) shuffled[i] ^= 0x55;
  for (const std::string& bytes : {std::string("no database at all, but some text that is as long as a header of one"),
                                   torn, shuffled, std::string(5000, '\0')}) {
    dir.write("cache/conversations.sqlite3", bytes);
    std::vector<std::string> remarks;
    const StorePtr store = open_in(dir, 1u << 20, &remarks);
    EXPECT_TRUE(store->is_lasting());
    ASSERT_EQ(remarks.size(), 1u);
    EXPECT_THAT(remarks[0], testing::AllOf(testing::HasSubstr(path), testing::HasSubstr(".damaged")));
    EXPECT_EQ(remarks[0].find('\n'), std::string::npos) << "a remark is one line";
    EXPECT_EQ(read_whole_file(path + ".damaged"), bytes);
    EXPECT_TRUE(store->create_conversation("us", {.id = "a"}).ok());
  }
  std::vector<std::string> remarks;
  EXPECT_TRUE(open_in(dir, 1u << 20, &remarks)->find_conversation("us", "a").ok());
  EXPECT_THAT(remarks, testing::IsEmpty());
}

TEST(StoreFileTest, FileOfALaterVersionIsNotChanged) {
  const TempDir dir;
  open_in(dir);
  const std::string path = dir.file("cache/conversations.sqlite3");
  std::string bytes = read_whole_file(path);
  bytes[63] = 9;  // changes user_version
  dir.write("cache/conversations.sqlite3", bytes);
  std::vector<std::string> remarks;
  const StorePtr store = open_in(dir, 1u << 20, &remarks);
  EXPECT_FALSE(store->is_lasting());
  EXPECT_TRUE(store->create_conversation("us", {.id = "a"}).ok()) << "in memory";
  ASSERT_EQ(remarks.size(), 1u);
  EXPECT_THAT(remarks[0], testing::AllOf(testing::HasSubstr(path), testing::HasSubstr("version 9")));
  EXPECT_EQ(read_whole_file(path), bytes);
  EXPECT_FALSE(std::filesystem::exists(path + ".damaged"));
}

TEST(StoreFileTest, UnsafeOrIrregularFileIsNotUsed) {
  const TempDir dir;
  open_in(dir);
  const std::string path = dir.file("cache/conversations.sqlite3");
  std::filesystem::rename(path, dir.file("elsewhere"));
  std::filesystem::create_symlink(dir.file("elsewhere"), path);
  std::vector<std::string> remarks;
  EXPECT_FALSE(open_in(dir, 1u << 20, &remarks)->is_lasting());
  EXPECT_THAT(remarks, testing::ElementsAre(testing::HasSubstr("not a regular file")));
  std::filesystem::remove(path);
  std::filesystem::permissions(dir.file("cache"), std::filesystem::perms::all);
  EXPECT_FALSE(open_in(dir)->is_lasting());
}

TEST(StoreFileTest, DamagedEntryIsAnErrorAndNeverReturnsWrongText) {
  const TempDir dir;
  const std::string text(300, 'q');
  {
    const StorePtr store = open_in(dir);
    ASSERT_TRUE(store->put_history(holder_of("us"), {.name = "h", .text = text, .hashes = {1}, .first = 1}).ok());
    ASSERT_TRUE(store->create_conversation("us", {.id = "a"}).ok());
  }
  std::string bytes = read_whole_file(dir.file("cache/conversations.sqlite3"));
  bytes[bytes.find("qqqqqq") + 3] = 'r';
  dir.write("cache/conversations.sqlite3", bytes);
  const StorePtr store = open_in(dir);
  EXPECT_EQ(store->read_history(holder_of("us"), "h").status().code(), ErrorCode::kCorrupt);
  EXPECT_TRUE(store->find_conversation("us", "a").ok()) << "other entries are not affected";
  EXPECT_TRUE(store->refuse_history(holder_of("us"), "h").ok());
  EXPECT_EQ(store->stats().n_refused, 1u);
  EXPECT_EQ(store->stats().n_kept, 0u);
}

}  // namespace
}  // namespace ibid::serve
