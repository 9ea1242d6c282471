// The store on a server that nodes share: what a reader of the server sees, a server that is down, slow, full, damaged
// or forgetful, and the keys of the key file.
#include "server/store/shared_rows.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <atomic>
#include <chrono>
#include <map>
#include <set>
#include <thread>

#include "server/store/cache_namespace.h"
#include "tests/server/store/store_homes.h"

namespace ibid::serve {
namespace {

using testing::HasSubstr;
using testing::Not;

constexpr int64_t kMs = 1'000'000;
const std::string kOldKey(64, 'a'), kNewKey(64, 'b');

StoredHistory history(const std::string& name, const std::string& text, std::vector<uint64_t> hashes) {
  return {.name = name, .text = text, .hashes = std::move(hashes), .first = 1};
}

// Stores an entry of each kind.
void fill(ConversationStore& store) {
  StoredResponse next = response("resp_2", Json::array({item("msg_2", "second text")}), "resp_1");
  ASSERT_TRUE(store.put_response("sk-key", response("resp_1", Json::array({item("msg_1", "first text")}))).ok());
  ASSERT_TRUE(store.put_response("sk-key", next).ok());
  ASSERT_TRUE(store.create_conversation("sk-key", {.id = "conv_1", .metadata = {{"m", 1}}}).ok());
  ASSERT_TRUE(store.put_history(holder_of("sk-key"), history("h", "third text", {1, 2})).ok());
}

// The content of the store, with errors as their codes. Adds the codes to `codes`.
std::string entries_of(ConversationStore& store, std::set<ErrorCode>* codes = nullptr) {
  Json all = Json::array();
  const auto add = [&](const Status& status, const std::function<Json()>& value) {
    all.push_back(status.ok() ? value() : Json(static_cast<int>(status.code())));
    if (codes != nullptr) codes->insert(status.code());
  };
  for (const char* id : {"resp_1", "resp_2"}) {
    const auto found = store.find_response("sk-key", id);
    add(found.status(), [&] { return all_items(*found); });
  }
  const auto conversation = store.find_conversation("sk-key", "conv_1");
  add(conversation.status(), [&] { return Json::array({conversation->items, conversation->metadata}); });
  const std::vector<uint64_t> hashes = {1, 2};
  const auto found = store.find_history(holder_of("sk-key"), hashes, 0);
  add(found.status(), [&] { return found->has_value() ? Json((*found)->n) : Json(); });
  const auto text = store.read_history(holder_of("sk-key"), "h");
  add(text.status(), [&] { return Json(*text); });
  return json_to_string(all);
}

class SharedRowsTest : public testing::Test {
 protected:
  StorePtr open() { return home_.open(1u << 20, &remarks_); }

  std::vector<std::string> remarks_;
  StoreHome home_{Home::kFakeServer};
};

TEST_F(SharedRowsTest, ReaderOfTheServerSeesNoNameAndNoText) {
  fill(*open());
  const std::string seen = home_.fake().all_texts();
  for (const char* secret : {"sk-key", "resp_1", "msg_1", "conv_1", "text", "third"}) {
    EXPECT_THAT(seen, Not(HasSubstr(std::string(secret) == "text" ? " text" : secret))) << secret;
  }
  EXPECT_THAT(seen, Not(HasSubstr(holder_of("sk-key").space))) << "a namespace that is guessed cannot be tested";
  EXPECT_THAT(seen, HasSubstr("ibid:conversations:root:"));
}

TEST_F(SharedRowsTest, ServerThatIsDownIsAnErrorAndLoggedOnce) {
  home_.fake().set_down(true);
  const StorePtr store = open();
  EXPECT_TRUE(store->is_lasting());
  for (int i = 0; i < 3; ++i) {
    EXPECT_EQ(store->put_response("us", response("a", Json::array({item("1")}))).code(), ErrorCode::kIo);
    EXPECT_EQ(store->find_response("us", "a").status().code(), ErrorCode::kIo);
    EXPECT_EQ(store->find_item("us", "1").status().code(), ErrorCode::kIo);
    EXPECT_EQ(store->remove_response("us", "a").code(), ErrorCode::kIo);
    EXPECT_EQ(store->take_conversation("us", "a").status().code(), ErrorCode::kIo) << "and it is not locked";
    EXPECT_EQ(store->find_history(holder_of("us"), std::vector<uint64_t>{1}, 0).status().code(), ErrorCode::kIo);
    EXPECT_EQ(store->forget("us").code(), ErrorCode::kIo);
    EXPECT_EQ(store->stats().n_kept, 0u) << "does not wait for the server";
  }
  EXPECT_THAT(remarks_, testing::ElementsAre(HasSubstr("not available")));
  home_.fake().set_down(false);
  Status status(ErrorCode::kIo, "");
  for (int i = 0; i < 1000 && !status.ok(); ++i) {
    std::this_thread::sleep_for(std::chrono::milliseconds(10));
    status = store->put_response("us", response("a", Json::array({item("1")})));
  }
  EXPECT_TRUE(status.ok()) << status.message();
  EXPECT_TRUE(store->find_response("us", "a").ok());
  EXPECT_THAT(remarks_, testing::ElementsAre(testing::_, HasSubstr("available again")));
}

// After a few calls that have waited for their limit, the breaker is open and no call waits.
TEST_F(SharedRowsTest, ServerThatHangsCostsNoCallMoreThanItsLimit) {
  const StorePtr store = open();
  fill(*store);
  home_.fake().set_silent(true);
  int64_t waited_ns = 0;
  for (int i = 0; i < 10; ++i) {
    const int64_t begin_ns = system_clock().steady_ns();
    const auto found = store->find_history(holder_of("sk-key"), std::vector<uint64_t>{1, 2}, 0);
    EXPECT_EQ(found.status().code(), ErrorCode::kIo);
    waited_ns += system_clock().steady_ns() - begin_ns;
  }
  EXPECT_EQ(store->find_response("sk-key", "resp_1").status().code(), ErrorCode::kIo);
  EXPECT_LT(waited_ns, 8 * SharedRows::kLookUpNs)
      << "ten calls, of which the breaker lets three or a probe's more wait";
}

// The connection ends at the n-th command, for each n: a change is made completely or not at all.
TEST_F(SharedRowsTest, ConnectionThatEndsLeavesAChangeCompleteOrNotMade) {
  const auto change = [](ConversationStore& store) {
    StoredResponse next = response("resp_3", Json::array({item("msg_3")}), "resp_2");
    return store.put_response("sk-key", next);
  };
  bool has_ended = false;
  for (int nth = 0; !has_ended; ++nth) {
    ASSERT_LT(nth, 200);
    home_.fake().clear();
    fill(*open());
    const std::string before = entries_of(*open());
    std::atomic<int> n_commands{0};
    home_.fake().set_script([&](const RespServer::Words&) -> std::optional<std::string> {
      if (n_commands++ != nth) return std::nullopt;
      return std::string(RespServer::kThenClose);
    });
    const Status status = change(*open());
    has_ended = n_commands <= nth;
    home_.fake().set_script({});
    const StorePtr store = open();
    EXPECT_EQ(status.ok(), has_ended) << nth;
    EXPECT_EQ(store->find_response("sk-key", "resp_3").ok(), status.ok()) << nth;
    EXPECT_EQ(entries_of(*store), before) << nth;
    EXPECT_TRUE(change(*store).ok()) << nth;
    EXPECT_EQ(all_items(*store->find_response("sk-key", "resp_3")).size(), 3u) << nth;
  }
}

// Every record is changed, truncated, and exchanged for another one: an error or the right result.
TEST_F(SharedRowsTest, DamagedRecordIsAnErrorAndNeverReturnsWrongText) {
  fill(*open());
  const std::string sound = entries_of(*open());
  const std::map<std::string, std::string> data = home_.fake().data();
  std::set<ErrorCode> codes;
  size_t n_noticed = 0;
  for (const auto& [key, value] : data) {
    std::vector<std::string> forged = {value.substr(0, value.size() / 2), "x", value + "x"};
    for (const size_t at : {size_t{0}, size_t{9}, size_t{25}, value.size() - 1}) {
      if (at >= value.size()) continue;
      forged.push_back(value);
      forged.back()[at] = static_cast<char>(forged.back()[at] ^ 1);
    }
    for (const auto& [other, of_other] : data) forged.push_back(of_other);
    for (const std::string& bytes : forged) {
      if (bytes == value) continue;
      home_.fake().set(key, bytes);
      const StorePtr store = open();
      const Json now = Json::parse(entries_of(*store, &codes)), right = Json::parse(sound);
      for (size_t i = 0; i < now.size(); ++i) {
        EXPECT_TRUE(now[i] == right[i] || now[i].is_number_integer() || now[i].is_null()) << key << now[i];
      }
      n_noticed += now == right ? 0 : 1;
    }
    home_.fake().set(key, value);
  }
  EXPECT_EQ(entries_of(*open()), sound);
  EXPECT_GT(n_noticed, 30u);
  for (const ErrorCode code : codes) {
    EXPECT_THAT(code, testing::AnyOf(ErrorCode::kOk, ErrorCode::kCorrupt, ErrorCode::kNotFound, ErrorCode::kIo));
  }
}

TEST_F(SharedRowsTest, DamagedEntryCanBeRemovedAndReplaced) {
  fill(*open());
  home_.fake().edit([](const std::string& key, const std::string& value) {
    return key.find(":root:") != key.npos ? value : value.substr(0, value.size() - 1);
  });
  const StorePtr store = open();
  EXPECT_EQ(store->find_response("sk-key", "resp_1").status().code(), ErrorCode::kCorrupt);
  EXPECT_TRUE(store->remove_response("sk-key", "resp_1").ok());
  EXPECT_EQ(store->find_response("sk-key", "resp_1").status().code(), ErrorCode::kNotFound);
  EXPECT_TRUE(store->put_history(holder_of("sk-key"), history("h", "new", {1})).ok());
  EXPECT_EQ(store->read_history(holder_of("sk-key"), "h").value(), "new");
}

// A server whose memory policy evicts any key loses each of the keys once: nothing wrong is found, and the budget is
// respected again when entries were evicted.
TEST_F(SharedRowsTest, LostKeysCostEntriesAndNotTheBudget) {
  constexpr uint64_t kBudget = 20'000;
  const auto put = [](ConversationStore& store, int i) {
    const std::string id = "r" + std::to_string(i);
    return store.put_response("us", response(id, Json::array({item(id, std::string(800, 'x'))})));
  };
  std::set<std::string> kinds;
  {
    const StorePtr store = home_.open(kBudget);
    for (int i = 0; i < 8; ++i) ASSERT_TRUE(put(*store, i).ok());
  }
  std::string texts = home_.fake().all_texts();
  std::set<std::string> keys;
  for (size_t at = texts.find("ibid:conversations:"); at != texts.npos;
       at = texts.find("ibid:conversations:", at + 1)) {
    keys.insert(texts.substr(at, texts.find('\n', at) - at));
  }
  ASSERT_GT(keys.size(), 16u);
  for (const std::string& lost : keys) {
    home_.fake().clear();
    const StorePtr store = home_.open(kBudget);
    for (int i = 0; i < 8; ++i) ASSERT_TRUE(put(*store, i).ok());
    home_.fake().erase(lost);
    for (int i = 100; i < 160; ++i) {
      ASSERT_TRUE(put(*store, i).ok()) << lost;
      const auto found = store->find_response("us", "r" + std::to_string(i));
      ASSERT_TRUE(found.ok()) << lost;
    }
    EXPECT_TRUE(store->find_response("us", "r150").ok()) << lost << ": the budget holds more than ten entries";
    size_t n_stored = 0;
    for (const auto& [key, value] : home_.fake().data()) n_stored += value.size();
    EXPECT_LT(n_stored, 2 * kBudget) << lost;
    EXPECT_TRUE(store->forget("us").ok());
    EXPECT_EQ(store->find_response("us", "r159").status().code(), ErrorCode::kNotFound) << lost;
  }
}

TEST_F(SharedRowsTest, FullServerIsALimit) {
  const StorePtr store = open();
  home_.fake().set_script([](const RespServer::Words& words) -> std::optional<std::string> {
    if (words[0] == "EXEC")
      return std::string("-EXECABORT because of previous errors\r\n").append(RespServer::kThenClose);
    if (words[0] != "SET") return std::nullopt;
    return "-OOM command not allowed when used memory > 'maxmemory'.\r\n";
  });
  EXPECT_EQ(store->put_response("us", response("a", Json::array({item("1")}))).code(), ErrorCode::kLimitExceeded);
  home_.fake().set_script({});
  home_.fake().set_down(true);  // the connection that the script closes is closed now
  home_.fake().set_down(false);
  EXPECT_TRUE(store->put_response("us", response("a", Json::array({item("1")}))).ok());
}

TEST_F(SharedRowsTest, EntriesStayWhileAKeyIsReplaced) {
  const std::string both = kOldKey + "\n" + kNewKey, replaced = kNewKey + "\n" + kOldKey;
  const auto open_with = [&](const std::string& keys) { return home_.open(1u << 20, nullptr, keys); };
  fill(*open_with(kOldKey));
  const std::string sound = entries_of(*open_with(kOldKey));
  const StorePtr before = open_with(both), after = open_with(replaced);
  for (ConversationStore* store : {before.get(), after.get()}) EXPECT_EQ(entries_of(*store), sound);
  ASSERT_TRUE(after->create_conversation("us", {.id = "new"}).ok());
  EXPECT_TRUE(before->find_conversation("us", "new").ok());
  ASSERT_TRUE(before->remove_conversation("us", "new").ok());
  EXPECT_EQ(after->find_conversation("us", "new").status().code(), ErrorCode::kNotFound);
  const StorePtr stranger = open_with(kNewKey);
  EXPECT_EQ(stranger->find_response("sk-key", "resp_1").status().code(), ErrorCode::kNotFound);
  EXPECT_TRUE(stranger->create_conversation("us", {.id = "c"}).ok()) << "a store of its own";
}

// Without a key file a server on this machine is used in plain; its answers are hostile input.
TEST_F(SharedRowsTest, WithoutAKeyRecordsAreCheckedToo) {
  const auto open_plain = [&] { return home_.open(1u << 20, nullptr, std::nullopt); };
  fill(*open_plain());
  const std::string sound = entries_of(*open_plain());
  EXPECT_THAT(sound, HasSubstr("third text"));
  for (const auto& [key, value] : home_.fake().data()) {
    for (const std::string& bytes :
         {std::string("1:2"), std::string("9999999999999999999:"), value.substr(0, value.size() - 1), value + "1:x",
          std::string("1:11:11:s1:n1:k1:o1:11:11:01:012:9999999999991:0"), std::string("1:1")}) {
      home_.fake().set(key, bytes);
      const StorePtr store = open_plain();
      (void)entries_of(*store);
      (void)store->create_conversation("us", {.id = "c"});
      home_.fake().set(key, value);
    }
  }
  std::map<std::string, std::string> texts;
  for (const auto& [key, value] : home_.fake().data()) {
    if (key.find(":text:") != key.npos) texts[key] = value;
  }
  ASSERT_GT(texts.size(), 3u);
  // The text of another entry is noticed, because it has its own name.
  for (const auto& [key, value] : texts) {
    for (const auto& [other, of_other] : texts) {
      if (key == other) continue;
      home_.fake().set(key, of_other);
      const Json now = Json::parse(entries_of(*open_plain())), right = Json::parse(sound);
      for (size_t i = 0; i < now.size(); ++i) {
        EXPECT_TRUE(now[i] == right[i] || !now[i].is_array()) << now[i];
      }
      home_.fake().set(key, value);
    }
  }
}

TEST_F(SharedRowsTest, OnlyALookUpOfManyPrefixesTakesSeveralRequests) {
  const StorePtr store = open();
  std::vector<uint64_t> hashes(600);
  for (size_t i = 0; i < hashes.size(); ++i) hashes[i] = i + 1;
  ASSERT_TRUE(store->put_history(holder_of("us"), history("h", "t", hashes)).ok());
  const size_t before = home_.fake().n_commands("HMGET");
  EXPECT_EQ((*store->find_history(holder_of("us"), hashes, 0))->n, 600u);
  EXPECT_EQ(home_.fake().n_commands("HMGET"), before + 1);
  const std::span<const uint64_t> some = std::span(hashes).first(100);
  EXPECT_EQ((*store->find_history(holder_of("us"), some, 0))->n, 100u) << "its last 512 prefixes are found";
  EXPECT_FALSE(store->find_history(holder_of("us"), std::span(hashes).first(80), 0)->has_value());
}

TEST_F(SharedRowsTest, LongChainOfResponsesBeginsAgain) {
  const StorePtr store = home_.open(64u << 20);
  Json in_front = Json::array();
  for (size_t i = 0; i < 520; ++i) {
    const std::string id = "c" + std::to_string(i), before = i == 0 ? "" : "c" + std::to_string(i - 1);
    StoredResponse one = response(id, Json::array({item("m" + std::to_string(i))}), before);
    one.in_front = in_front;
    ASSERT_TRUE(store->put_response("us", one).ok()) << i;
    in_front.push_back(one.items[0]);
  }
  EXPECT_EQ(all_items(store->find_response("us", "c519").value()), in_front);
}

TEST(SharedRowsOnRedisTest, UserWithTheListedRightsSuffices) {
  if (redis_server_program().empty()) GTEST_SKIP() << "redis-server is not installed (Debian: redis-server)";
  const RedisServer redis({"--user",  "default", "off",          "--user", "ibid",    "on",      ">pass",
                           "~ibid:*", "+ping",   "+get",         "+set",   "+del",    "+watch",  "+unwatch",
                           "+multi",  "+exec",   "+zadd",        "+zrem",  "+zscore", "+zrange", "+zrevrange",
                           "+sadd",   "+srem",   "+srandmember", "+hset",  "+hdel",   "+hmget"});
  ASSERT_TRUE(redis.is_ready());
  std::string url = redis.url();
  url.replace(0, 5, "unix://ibid:pass@");
  const StorePtr store =
      ConversationStore::open({.server = net::SharedServer::open(url, "").value(), .budget_bytes = 5'000}).value();
  fill(*store);
  for (int i = 0; i < 20; ++i) ASSERT_TRUE(store->create_conversation("us", {.id = std::to_string(i)}).ok());
  EXPECT_TRUE(store->find_conversation("us", "19").ok());
  EXPECT_TRUE(store->forget("us").ok());
}

}  // namespace
}  // namespace ibid::serve
