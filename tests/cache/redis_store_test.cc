// RespStore with a real server: its commands, the rights that they need, and what a full server does.
#include <gtest/gtest.h>

#include <cstring>
#include <filesystem>
#include <string>
#include <vector>

#include "cache/tier/record_tier.h"
#include "cache/tier/resp_store.h"
#include "tests/cache/nan_page_pool.h"
#include "tests/cache/tiny_kv.h"
#include "tests/support/idle_fakes.h"
#include "tests/support/redis_server.h"
#include "tests/support/temp_dir.h"

namespace ibid {
namespace {

class RedisServerStoreTest : public testing::Test {
 protected:
  static constexpr size_t kBytes = 100'000;

  void SetUp() override {
    if (redis_server_program().empty()) GTEST_SKIP() << "redis-server is not installed (Debian: redis-server)";
  }
  // Connects to the server; login: empty, or USER:PASSWORD.
  std::shared_ptr<net::SharedServer> connect(const RedisServer& server, bool has_key, const std::string& login = {}) {
    std::string url = server.url();
    if (!login.empty()) url.replace(0, 5, "unix://" + login + "@");
    std::string key_file;
    if (has_key) {
      key_file = dir_.write("key", std::string(64, 'b') + "\n");
      std::filesystem::permissions(key_file, std::filesystem::perms::owner_read);
    }
    return *net::SharedServer::open(url, key_file);
  }
  static PageName numbered(size_t i) {
    PageName name;
    std::memcpy(name.bytes.data(), &i, sizeof i);
    return name;
  }
  static std::vector<std::byte> numbered_record(size_t i) {
    return std::vector<std::byte>(kBytes, static_cast<std::byte>(i));
  }
  static Status put(RespStore& store, size_t i) {
    const std::vector<std::byte> record = numbered_record(i);
    const std::span<const std::byte> pieces[] = {record};
    return store.put(numbered(i), pieces, i % 2 == 0);
  }
  // True if the record is stored; checks its bytes.
  static bool has(RespStore& store, size_t i) {
    const PageName names[] = {numbered(i)};
    const ReadLimits limits;
    ReadTimer timer(limits, system_clock());
    bool found = false;
    EXPECT_TRUE(store
                    .get(names, timer,
                         [&](size_t, std::span<const std::byte> record) {
                           EXPECT_TRUE(std::ranges::equal(record, numbered_record(i))) << i;
                           return found = true;
                         })
                    .ok());
    return found;
  }

  const TempDir dir_;
  const KvLayout layout_ = tiny_layout(KvDType::kInt8);
  NanPagePool pool_{layout_, 256 * layout_.page_bytes()};
};

TEST_F(RedisServerStoreTest, TierReadsWhatAnotherNodeWrote) {
  const RedisServer server;
  ASSERT_TRUE(server.is_ready());
  for (const bool has_key : {false, true}) {
    const auto shared = connect(server, has_key);
    const auto open = [&] {
      return std::make_unique<RecordTier>(
          RecordTierOptions{.fingerprint = FingerprintBuilder().add("test", "model").finish()},
          std::make_shared<RespStore>(shared, most_record_bytes(layout_)), pool_, system_clock(),
          std::make_unique<NeverIdle>());
    };
    const auto found = [&](KvTier& tier, std::string_view name_space, TokenSpan ids) {
      KvCacheEntry entry(pool_);
      const size_t n = tier.extend(name_space, ids, entry);
      EXPECT_EQ(read_rows(entry), fresh_rows(layout_, ids.first(n)));
      return n;
    };
    const Tokens ids = random_tokens(1, 64 * 20 + 30);
    const auto a = open(), b = open();
    {
      KvCacheEntry entry(pool_);
      ASSERT_TRUE(feed(entry, ids).ok());
      a->write_behind("alice", entry);
      ASSERT_TRUE(a->flush().ok());
    }
    EXPECT_EQ(found(*b, "alice", ids), ids.size());
    EXPECT_EQ(found(*b, "alice", TokenSpan(ids).first(700)), 700u);
    EXPECT_EQ(found(*b, "bob", ids), 0u);
    ASSERT_TRUE(b->clear("alice").ok());
    EXPECT_EQ(found(*a, "alice", ids), 0u);
    EXPECT_EQ(found(*open(), "alice", ids), 0u);
  }
}

TEST_F(RedisServerStoreTest, DocumentedRightsSuffice) {
  const RedisServer server({"--user",  "default", "off",     "--user",  "ibid",   "on",       ">pass",  "resetchannels",
                            "~ibid:*", "-@all",   "+ping",   "+select", "+get",   "+getex",   "+set",   "+del",
                            "+lpush",  "+ltrim",  "+lrange", "+expire", "+watch", "+unwatch", "+multi", "+exec"});
  ASSERT_TRUE(server.is_ready());
  const auto shared = connect(server, true, "ibid:pass");
  ASSERT_TRUE(shared->connections().try_now().ok());
  RespStore store(shared, kBytes);
  const ReadLimits limits;
  ReadTimer timer(limits, system_clock());
  EXPECT_TRUE(put(store, 0).ok() && put(store, 1).ok());
  EXPECT_TRUE(has(store, 0) && has(store, 1));
  EXPECT_TRUE(store.remove(numbered(0), timer).ok());
  EXPECT_FALSE(has(store, 0));
  EXPECT_TRUE(store.raise_epoch({}, 7).ok());
  EXPECT_TRUE(store.raise_epoch({}, 5).ok());
  EXPECT_EQ(*store.epoch({}, timer), 7u);
  for (int i = 0; i < 10; ++i) EXPECT_TRUE(store.add_tail(numbered(2), std::as_bytes(std::span("tail"))).ok());
  EXPECT_EQ(store.tails(numbered(2), timer)->size(), RecordStore::kMostTails);
}

TEST_F(RedisServerStoreTest, FullServerLosesRecordsButNeverChangesThem) {
  for (const char* policy : {"noeviction", "allkeys-lru", "allkeys-lfu", "allkeys-random", "volatile-lru",
                             "volatile-lfu", "volatile-random", "volatile-ttl"}) {
    SCOPED_TRACE(policy);
    const RedisServer server({"--maxmemory", "5mb", "--maxmemory-policy", policy});
    ASSERT_TRUE(server.is_ready());
    RespStore store(connect(server, true), kBytes);
    size_t n_refused = 0, n_stored = 0;
    for (size_t i = 0; i < 100; ++i) {
      const Status status = put(store, i);
      EXPECT_TRUE(status.ok() || status.code() == ErrorCode::kLimitExceeded) << status.to_string();
      n_refused += status.ok() ? 0 : 1;
    }
    for (size_t i = 0; i < 100; ++i) n_stored += has(store, i) ? 1 : 0;
    EXPECT_GT(n_stored, 0u);
    EXPECT_LT(n_stored, 60u);
    const bool keeps_all = policy == std::string_view("noeviction");
    EXPECT_EQ(n_refused > 0, keeps_all);
    const Status raised = store.raise_epoch({}, 9), tail = store.add_tail(numbered(0), std::as_bytes(std::span("x")));
    const ErrorCode wanted = keeps_all ? ErrorCode::kLimitExceeded : ErrorCode::kOk;
    EXPECT_EQ(raised.code(), wanted) << raised.to_string();
    EXPECT_EQ(tail.code(), wanted) << tail.to_string();
  }
}

TEST_F(RedisServerStoreTest, RestartedServerIsUsedAgain) {
  RedisServer server;
  ASSERT_TRUE(server.is_ready());
  RespStore store(connect(server, false), kBytes);
  ASSERT_TRUE(put(store, 0).ok());
  server.restart();
  ASSERT_TRUE(server.is_ready());
  EXPECT_FALSE(has(store, 0)) << "the new server is empty";
  ASSERT_TRUE(put(store, 0).ok());
  EXPECT_TRUE(has(store, 0));
}

}  // namespace
}  // namespace ibid
