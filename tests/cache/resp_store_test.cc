// RespStore (cache/tier/resp_store.h) with a server in this process; with and without a key.
#include "cache/tier/resp_store.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <chrono>
#include <cstring>
#include <filesystem>
#include <map>
#include <mutex>
#include <thread>

#include "tests/support/resp_server.h"
#include "tests/support/temp_dir.h"

namespace ibid {
namespace {

constexpr int64_t kMillisecond = 1'000'000;
constexpr size_t kMostBytes = 100'000;

PageName record_name(size_t i) {
  PageName name;
  std::memcpy(name.bytes.data(), &i, sizeof i);
  return name;
}

std::string record_of(size_t i) {
  std::string record(i % 5 == 4 ? kMostBytes : 100 + 7 * i, static_cast<char>('a' + i % 26));
  record[0] = static_cast<char>(i), record[1] = '\r', record[2] = '\n';
  return record;
}

std::string as_text(std::span<const std::byte> bytes) {
  return {reinterpret_cast<const char*>(bytes.data()), bytes.size()};
}

constexpr char kOldKey[] = "00112233445566778899aabbccddeeff00112233445566778899aabbccddeeff\n";
constexpr char kNewKey[] = "ffeeddccbbaa99887766554433221100ffeeddccbbaa99887766554433221100\n";

class RespStoreTest : public testing::Test {
 protected:
  // A node that has the keys.
  RespStore node(const std::string& keys = {}) {
    std::string key_file;
    if (!keys.empty()) {
      key_file = dir_.write("key" + std::to_string(++n_files_), keys);
      std::filesystem::permissions(key_file, std::filesystem::perms::owner_read);
    }
    shared_ = *net::SharedServer::open(server_.url(), key_file);
    return {shared_, kMostBytes};
  }
  static Status put(RespStore& store, size_t i, bool replaces = true) {
    const std::string record = record_of(i);
    const std::span<const std::byte> bytes = std::as_bytes(std::span(record));
    const std::span<const std::byte> pieces[] = {bytes.first(10), bytes.subspan(10, 0), bytes.subspan(10)};
    return store.put(record_name(i), pieces, replaces);
  }
  // Gets records 0 to n - 1, and checks the order and the bytes. An empty record is one that is not sound.
  static Status get(RespStore& store, size_t n, size_t& got, const ReadLimits& limits = {}) {
    std::vector<PageName> names(n);
    for (size_t i = 0; i < n; ++i) names[i] = record_name(i);
    ReadTimer timer(limits, system_clock());
    got = 0;
    return store.get(names, timer, [&](size_t i, std::span<const std::byte> record) {
      EXPECT_EQ(i, got);
      if (record.empty()) return false;
      EXPECT_EQ(as_text(record), record_of(i)) << i;
      ++got;
      timer.page_came();
      return true;
    });
  }
  static size_t n_got(RespStore& store, size_t n) {
    size_t got = 0;
    const Status status = get(store, n, got);
    EXPECT_TRUE(status.ok()) << status.to_string();
    return got;
  }
  static std::vector<std::string> tails(RespStore& store, size_t i) {
    ReadTimer timer(limits_, system_clock());
    const auto tails = store.tails(record_name(i), timer);
    EXPECT_TRUE(tails.ok()) << tails.status().to_string();
    std::vector<std::string> texts;
    for (const auto& tail : *tails) texts.push_back(as_text(tail));
    return texts;
  }
  static Status add_tail(RespStore& store, size_t i, std::string_view text) {
    return store.add_tail(record_name(i), std::as_bytes(std::span(text)));
  }
  static uint64_t epoch(RespStore& store, const Sha256Digest& name_space = {}) {
    ReadTimer timer(limits_, system_clock());
    const Result<uint64_t> epoch = store.epoch(name_space, timer);
    EXPECT_TRUE(epoch.ok()) << epoch.status().to_string();
    return epoch.ok() ? *epoch : 0;
  }
  static Status remove(RespStore& store, size_t i) {
    ReadTimer timer(limits_, system_clock());
    return store.remove(record_name(i), timer);
  }

  static inline const ReadLimits limits_{};
  const TempDir dir_;
  size_t n_files_ = 0;
  RespServer server_;
  std::shared_ptr<net::SharedServer> shared_;
};

class RespStoreKeys : public RespStoreTest, public testing::WithParamInterface<const char*> {};
INSTANTIATE_TEST_SUITE_P(All, RespStoreKeys, testing::Values("", kNewKey));

TEST_P(RespStoreKeys, RecordsComeInOrderUpToTheFirstThatIsMissing) {
  RespStore store = node(GetParam());
  for (size_t i = 0; i < 30; ++i) ASSERT_TRUE(put(store, i).ok());
  EXPECT_EQ(n_got(store, 30), 30u);
  EXPECT_EQ(n_got(store, 31), 30u);
  ASSERT_TRUE(remove(store, 17).ok());
  EXPECT_EQ(n_got(store, 30), 17u);
  EXPECT_EQ(n_got(store, 30), 17u);
  ASSERT_TRUE(remove(store, 0).ok());
  EXPECT_EQ(n_got(store, 30), 0u);
  EXPECT_EQ(n_got(store, 0), 0u);
  ASSERT_TRUE(remove(store, 0).ok()) << "nothing to remove";
  EXPECT_EQ(server_.n_connections(), 1u) << "answers after a missing record are received";
}

TEST_P(RespStoreKeys, RequestsAreBoundedByTheWindow) {
  RespStore store = node(GetParam());
  for (size_t i = 0; i < 30; ++i) ASSERT_TRUE(put(store, i).ok());
  size_t most = 0;  // over all calls, because the server may count the last requests of a call after its end
  for (const size_t n_wanted : {0, 1, 5}) {
    most += n_wanted + RespStore::kWindow;
    std::vector<PageName> names(30);
    for (size_t i = 0; i < 30; ++i) names[i] = record_name(i);
    ReadTimer timer(limits_, system_clock());
    size_t n_taken = 0;
    EXPECT_TRUE(store.get(names, timer, [&](size_t, auto) { return n_taken++ < n_wanted; }).ok());
    EXPECT_EQ(n_taken, n_wanted + 1);
    EXPECT_LE(server_.n_commands("GETEX"), most);
  }
  EXPECT_EQ(n_got(store, 30), 30u) << "the next call is not given answers of the last one";
}

TEST_P(RespStoreKeys, AllThatIsStoredExpires) {
  std::mutex mutex;
  std::vector<RespServer::Words> seen;
  server_.set_script([&](const RespServer::Words& words) -> std::optional<std::string> {
    const std::lock_guard lock(mutex);
    seen.push_back(words);
    return std::nullopt;
  });
  RespStore store = node(GetParam());
  ASSERT_TRUE(put(store, 0).ok() && put(store, 0, false).ok() && add_tail(store, 1, "tail").ok());
  ASSERT_TRUE(store.raise_epoch({}, 7).ok());
  EXPECT_EQ(n_got(store, 1), 1u);
  EXPECT_EQ(epoch(store), 7u);
  EXPECT_THAT(tails(store, 1), testing::ElementsAre("tail"));
  size_t n_lists = 0, n_expiries = 0;
  const std::lock_guard lock(mutex);
  for (const RespServer::Words& words : seen) {
    EXPECT_TRUE(words[0] != "SET" || words.at(3) == "EX");
    EXPECT_TRUE(words[0] != "GETEX" || words.at(2) == "EX");
    n_lists += words[0] == "LPUSH" || words[0] == "LRANGE" ? 1 : 0;
    n_expiries += words[0] == "EXPIRE" ? 1 : 0;
    EXPECT_NE(words[0], "EVAL");
  }
  EXPECT_EQ(n_lists, 2u);
  EXPECT_EQ(n_expiries, 2u);
}

TEST_P(RespStoreKeys, OnlyAReplacingRecordReplaces) {
  RespStore store = node(GetParam());
  const auto write = [&](const std::string& text, bool replaces) {
    const std::span<const std::byte> pieces[] = {std::as_bytes(std::span(text))};
    return store.put(record_name(0), pieces, replaces);
  };
  const auto read = [&] {
    std::string text;
    const PageName names[] = {record_name(0)};
    ReadTimer timer(limits_, system_clock());
    EXPECT_TRUE(store.get(names, timer, [&](size_t, auto record) { return text = as_text(record), true; }).ok());
    return text;
  };
  ASSERT_TRUE(write("first", false).ok());
  ASSERT_TRUE(write("second", false).ok());
  EXPECT_EQ(read(), "first");
  ASSERT_TRUE(write("third", true).ok());
  EXPECT_EQ(read(), "third");
}

TEST_P(RespStoreKeys, TailsAreTheLastEight) {
  RespStore store = node(GetParam());
  EXPECT_THAT(tails(store, 0), testing::IsEmpty());
  for (int i = 0; i < 11; ++i) ASSERT_TRUE(add_tail(store, 0, "tail " + std::to_string(i)).ok());
  ASSERT_TRUE(add_tail(store, 1, "another text's").ok());
  EXPECT_THAT(tails(store, 0),
              testing::ElementsAre("tail 10", "tail 9", "tail 8", "tail 7", "tail 6", "tail 5", "tail 4", "tail 3"));
}

TEST_P(RespStoreKeys, EpochIsNeverLowered) {
  RespStore store = node(GetParam());
  const Sha256Digest alice{std::byte{1}}, bob{std::byte{2}};
  EXPECT_EQ(epoch(store, alice), 0u);
  constexpr std::pair<uint64_t, uint64_t> kRaises[] = {{5, 5}, {3, 5}, {5, 5}, {900, 900}, {77, 900}};
  for (const auto& [raised, wanted] : kRaises) {
    ASSERT_TRUE(store.raise_epoch(alice, raised).ok());
    EXPECT_EQ(epoch(store, alice), wanted);
  }
  EXPECT_EQ(epoch(store, bob), 0u);
}

// Another node raises the epoch between this node's look and its change.
TEST_P(RespStoreKeys, EpochsOfTwoNodesDoNotLowerEachOther) {
  RespStore store = node(GetParam()), other = node(GetParam());
  ASSERT_TRUE(store.raise_epoch({}, 10).ok());
  int n_interruptions = 0;
  server_.set_script([&](const RespServer::Words& words) -> std::optional<std::string> {
    if (words[0] == "MULTI" && ++n_interruptions == 1) {
      EXPECT_TRUE(other.raise_epoch({}, 30).ok());
    }
    return std::nullopt;
  });
  ASSERT_TRUE(store.raise_epoch({}, 20).ok());
  server_.set_script({});
  EXPECT_GE(n_interruptions, 2);
  EXPECT_EQ(epoch(store), 30u);
}

TEST_P(RespStoreKeys, EpochThatIsNotSoundIsReplaced) {
  RespStore store = node(GetParam());
  const std::string far_future = std::to_string(system_clock().unix_ns() + int64_t{48} * 3600 * 1'000'000'000);
  for (const std::string forged : {"", "x", "12x", "-1", " 5", "18446744073709551615", "99999999999999999999"}) {
    ASSERT_TRUE(store.raise_epoch({}, 5).ok());
    ASSERT_EQ(epoch(store), 5u);
    server_.edit([&](const std::string&, const std::string&) { return forged; });
    EXPECT_EQ(epoch(store), 0u) << forged;
    ASSERT_TRUE(store.raise_epoch({}, 4).ok());
    EXPECT_EQ(epoch(store), 4u) << forged;
    server_.clear();
  }
  ASSERT_TRUE(store.raise_epoch({}, std::stoull(far_future)).ok());
  EXPECT_EQ(epoch(store), 0u) << "no later epoch could follow";
}

TEST_P(RespStoreKeys, ServerThatIsSilentCostsTheTimerAndOpensTheBreaker) {
  RespStore store = node(GetParam());
  for (size_t i = 0; i < 10; ++i) ASSERT_TRUE(put(store, i).ok());
  server_.set_silent(true);
  size_t got = 0;
  Clock& clock = system_clock();
  int64_t begin_ns = clock.steady_ns();
  EXPECT_EQ(get(store, 10, got, {.deadline_ns = begin_ns + 100 * kMillisecond}).code(), ErrorCode::kDeadline);
  EXPECT_LT(clock.steady_ns() - begin_ns, 400 * kMillisecond);
  begin_ns = clock.steady_ns();
  EXPECT_EQ(get(store, 10, got).code(), ErrorCode::kIo);
  EXPECT_LT(clock.steady_ns() - begin_ns, RespStore::kAnswerNs + 400 * kMillisecond);
  EXPECT_EQ(put(store, 0).code(), ErrorCode::kIo);
  EXPECT_FALSE(shared_->connections().breaker().allows_calls());
  begin_ns = clock.steady_ns();
  for (int i = 0; i < 100; ++i) EXPECT_EQ(get(store, 10, got).code(), ErrorCode::kIo);
  EXPECT_EQ(put(store, 0).code(), ErrorCode::kIo);
  EXPECT_EQ(store.raise_epoch({}, 1).code(), ErrorCode::kIo);
  EXPECT_LT(clock.steady_ns() - begin_ns, 100 * kMillisecond);
  EXPECT_EQ(got, 0u);
}

TEST_P(RespStoreKeys, SlowServerIsLeftAtTheLimits) {
  RespStore store = node(GetParam());
  for (size_t i = 0; i < 10; ++i) ASSERT_TRUE(put(store, i).ok());
  server_.set_pace(1, std::chrono::milliseconds(1000));
  size_t got = 0;
  const int64_t begin_ns = system_clock().steady_ns();
  EXPECT_EQ(get(store, 10, got, {.deadline_ns = begin_ns + 100 * kMillisecond}).code(), ErrorCode::kDeadline);
  std::stop_source stop;
  std::thread stopping([&] {
    std::this_thread::sleep_for(std::chrono::milliseconds(50));
    stop.request_stop();
  });
  EXPECT_EQ(get(store, 10, got, {.stop = stop.get_token()}).code(), ErrorCode::kDeadline);
  stopping.join();
  EXPECT_EQ(got, 0u);
  EXPECT_LT(system_clock().steady_ns() - begin_ns, 800 * kMillisecond);
  server_.set_pace(0, std::chrono::milliseconds(0));
  EXPECT_EQ(n_got(store, 10), 10u);
}

TEST_P(RespStoreKeys, UnreachableServerIsAnErrorAndComesBack) {
  RespStore store = node(GetParam());
  ASSERT_TRUE(put(store, 0).ok());
  std::mutex mutex;
  std::vector<std::string> reasons;
  shared_->connections().set_on_change([&](const std::string& reason) {
    const std::lock_guard lock(mutex);
    reasons.push_back(reason);
  });
  server_.set_down(true);
  size_t got = 0;
  for (int i = 0; i < 3; ++i) {
    EXPECT_EQ(get(store, 1, got).code(), ErrorCode::kIo);
    EXPECT_EQ(put(store, 0).code(), ErrorCode::kIo);
    EXPECT_EQ(remove(store, 0).code(), ErrorCode::kIo);
    EXPECT_EQ(add_tail(store, 0, "").code(), ErrorCode::kIo);
    EXPECT_EQ(store.raise_epoch({}, 1).code(), ErrorCode::kIo);
  }
  server_.set_down(false);
  for (int i = 0; i < 1000 && !shared_->connections().breaker().allows_calls(); ++i) {
    std::this_thread::sleep_for(std::chrono::milliseconds(10));
  }
  EXPECT_EQ(n_got(store, 1), 1u);
  shared_->connections().set_on_change({});
  ASSERT_EQ(reasons.size(), 2u) << "a line when it opens, and one when it closes";
  EXPECT_THAT(reasons[0], testing::HasSubstr(server_.url()));
  EXPECT_EQ(reasons[1], "");
}

struct ServerError {
  const char* line;
  ErrorCode code;
  bool opens;  // whether three of them open the breaker
};

// Every call returns an error, whatever the server reports.
TEST_P(RespStoreKeys, ErrorsOfTheServerAreTyped) {
  for (const ServerError& error : std::initializer_list<ServerError>{
           {"-OOM command not allowed", ErrorCode::kLimitExceeded, false},
           {"-LOADING Redis is loading the dataset in memory", ErrorCode::kIo, true},
           {"-MASTERDOWN Link with MASTER is down", ErrorCode::kIo, true},
           {"-NOAUTH Authentication required.", ErrorCode::kIo, true},
           {"-NOPERM this user has no permissions", ErrorCode::kIo, true},
           {"-READONLY You can't write against a read only replica.", ErrorCode::kIo, true},
           {"-MOVED 3999 127.0.0.1:6381", ErrorCode::kIo, true},
           {"-ERR unknown command", ErrorCode::kIo, true},
           {"$-5", ErrorCode::kIo, true},
           {"$99999999999", ErrorCode::kIo, false},
           {"*99999999999", ErrorCode::kIo, false},
           {"hello", ErrorCode::kIo, true}}) {
    SCOPED_TRACE(error.line);
    RespServer server;
    const std::string key_file = dir_.file("of_errors");
    if (*GetParam() != '\0' && !std::filesystem::exists(key_file)) {
      dir_.write("of_errors", GetParam());
      std::filesystem::permissions(key_file, std::filesystem::perms::owner_read);
    }
    const auto shared = *net::SharedServer::open(server.url(), *GetParam() == '\0' ? "" : key_file);
    RespStore store(shared, kMostBytes);
    ASSERT_TRUE(put(store, 0).ok());
    server.set_script([&](const RespServer::Words& words) -> std::optional<std::string> {
      if (words[0] == "PING") return std::nullopt;
      return std::string(error.line) + "\r\n";
    });
    size_t got = 0;
    EXPECT_EQ(put(store, 0).code(), error.code);
    EXPECT_EQ(get(store, 1, got).code(), error.code);
    EXPECT_EQ(got, 0u);
    EXPECT_EQ(add_tail(store, 0, "x").code(), error.code);
    EXPECT_EQ(shared->connections().breaker().allows_calls(), !error.opens);
    EXPECT_EQ(remove(store, 0).code(), error.code);
    EXPECT_FALSE(store.raise_epoch({}, 1).ok());
  }
}

TEST_P(RespStoreKeys, KeyOfAnotherTypeIsAMissAndIsReplaced) {
  RespStore store = node(GetParam());
  ASSERT_TRUE(put(store, 0).ok());
  ASSERT_TRUE(add_tail(store, 0, "x").ok());
  server_.set_script([](const RespServer::Words& words) -> std::optional<std::string> {
    if (words[0] != "GETEX" && words[0] != "LRANGE") return std::nullopt;
    return "-WRONGTYPE Operation against a key holding the wrong kind of value\r\n";
  });
  EXPECT_EQ(n_got(store, 1), 0u);
  EXPECT_EQ(epoch(store), 0u);
  EXPECT_THAT(tails(store, 0), testing::IsEmpty());
  EXPECT_TRUE(put(store, 0).ok());
  EXPECT_TRUE(shared_->connections().breaker().allows_calls());
}

class RespStoreSealed : public RespStoreTest {};

TEST_F(RespStoreSealed, ServerSeesNeitherNamesNorValues) {
  RespStore plain = node(), sealed = node(kNewKey);
  const std::string tail = "a tail of a text";
  for (RespStore* store : {&plain, &sealed}) {
    ASSERT_TRUE(put(*store, 3).ok() && add_tail(*store, 3, tail).ok() && store->raise_epoch({}, 1234567).ok());
    std::map<std::string, std::string> all = server_.data();
    const bool is_sealed = store == &sealed;
    ASSERT_EQ(all.size(), is_sealed ? 4u : 2u);
    size_t n_records = 0, n_epochs = 0;
    for (const auto& [key, value] : all) {
      n_records += value == record_of(3) ? 1 : 0;
      n_epochs += value == "1234567" ? 1 : 0;
    }
    EXPECT_EQ(n_records, 1u) << "only the plain one";
    EXPECT_EQ(n_epochs, 1u);
  }
  size_t n_tails = 0;
  server_.edit([&](const std::string& key, const std::string& value) {
    EXPECT_EQ(key.find("ibid:"), 0u);
    n_tails += value.find("tail") != std::string::npos ? 1 : 0;
    return value;
  });
  EXPECT_EQ(n_tails, 1u);
}

TEST_F(RespStoreSealed, ValuesThatAreNotSoundAreEmptyRecords) {
  RespStore store = node(kNewKey);
  using Change = std::function<std::string(std::string)>;
  for (const Change& change : std::initializer_list<Change>{
           [](std::string v) { return v[v.size() / 2] ^= 1, v; }, [](std::string v) { return v[0] ^= 1, v; },
           [](std::string v) { return v.back() ^= 1, v; }, [](std::string v) { return v + "x"; },
           [](std::string v) { return v.substr(0, v.size() - 1); }, [](std::string) { return std::string("x"); },
           [](std::string) { return record_of(0); }}) {
    ASSERT_TRUE(put(store, 0).ok());
    ASSERT_TRUE(add_tail(store, 0, "lost").ok());
    server_.edit([&](const std::string&, const std::string& value) { return change(value); });
    ASSERT_TRUE(add_tail(store, 0, "sound").ok());
    EXPECT_EQ(n_got(store, 1), 0u);
    EXPECT_THAT(tails(store, 0), testing::ElementsAre("sound"));
    server_.clear();
  }
  // A sound value under the name of another.
  for (size_t i : {0, 1}) ASSERT_TRUE(put(store, i).ok());
  const std::map<std::string, std::string> all = server_.data();
  server_.set(all.begin()->first, all.rbegin()->second);
  server_.set(all.rbegin()->first, all.begin()->second);
  EXPECT_EQ(n_got(store, 2), 0u);
}

TEST_F(RespStoreSealed, NodesWithOtherKeysShareNothing) {
  RespStore plain = node(), one = node(kOldKey), two = node(kNewKey);
  ASSERT_TRUE(put(one, 0).ok() && add_tail(one, 0, "x").ok() && one.raise_epoch({}, 5).ok());
  for (RespStore* store : {&plain, &two}) {
    EXPECT_EQ(n_got(*store, 1), 0u);
    EXPECT_THAT(tails(*store, 0), testing::IsEmpty());
    EXPECT_EQ(epoch(*store), 0u);
  }
  EXPECT_EQ(n_got(one, 1), 1u);
}

TEST_F(RespStoreSealed, BothKeysAreReadWhileOneReplacesTheOther) {
  RespStore before = node(kOldKey), between = node(std::string(kNewKey) + kOldKey), after = node(kNewKey);
  for (size_t i : {0, 1, 4, 5, 6, 7}) ASSERT_TRUE(put(before, i).ok());
  for (size_t i : {2, 3, 8}) ASSERT_TRUE(put(between, i).ok());
  ASSERT_TRUE(add_tail(before, 0, "old").ok() && add_tail(between, 0, "new").ok());
  EXPECT_EQ(n_got(between, 9), 9u);
  EXPECT_EQ(n_got(between, 12), 9u);
  EXPECT_EQ(n_got(before, 9), 2u);
  EXPECT_EQ(n_got(after, 9), 0u);
  EXPECT_THAT(tails(between, 0), testing::ElementsAre("new", "old"));
  ASSERT_TRUE(remove(between, 4).ok());
  EXPECT_EQ(n_got(between, 9), 4u);
  ASSERT_TRUE(before.raise_epoch({}, 50).ok());
  ASSERT_TRUE(between.raise_epoch({}, 40).ok());
  EXPECT_EQ(epoch(between), 50u);
  EXPECT_EQ(epoch(after), 40u);
}

}  // namespace
}  // namespace ibid
