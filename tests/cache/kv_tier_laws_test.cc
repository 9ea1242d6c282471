// The laws of KvTier (cache/tier/kv_tier.h), tested for every implementation and every KV type. To test a new tier, add
// a TierPlace and a line to kPlaces.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <atomic>
#include <cstring>
#include <filesystem>
#include <fstream>
#include <functional>
#include <future>
#include <thread>
#include <tuple>

#include "cache/tier/file_tier.h"
#include "cache/tier/record_tier.h"
#include "cache/tier/resp_store.h"
#include "tests/cache/memory_store.h"
#include "tests/cache/nan_page_pool.h"
#include "tests/cache/tiny_kv.h"
#include "tests/support/failing_new.h"
#include "tests/support/faulty_file_ops.h"
#include "tests/support/idle_fakes.h"
#include "tests/support/resp_server.h"
#include "tests/support/temp_dir.h"

namespace ibid {
namespace {

// A clock that calls a hook on every read, and advances by a nanosecond each time.
class WatchedClock : public Clock {
 public:
  int64_t steady_ns() override {
    const int64_t now_ns = now_ns_++;
    if (const std::function<void()> looked = looked_) looked();
    return now_ns;
  }
  int64_t unix_ns() override { return 1'700'000'000'000'000'000; }
  void advance(int64_t ns) { now_ns_ += ns; }
  int64_t now_ns() const { return now_ns_; }
  // REQUIRES: no thread reads the clock meanwhile.
  void when_looked_at(std::function<void()> looked) { looked_ = std::move(looked); }

 private:
  std::atomic<int64_t> now_ns_{0};
  std::function<void()> looked_;
};

// Storage of one kind of tier. It outlives the tiers, as a directory outlives processes.
class TierPlace {
 public:
  virtual ~TierPlace() = default;
  virtual std::unique_ptr<KvTier> open(const LaterFingerprint& fingerprint, KvPagePool& pool, WatchedClock& clock,
                                       uint64_t eager_bytes_per_s) = 0;
  // Flips a bit in the blocks of the stored pages that begin at this position.
  virtual void damage(size_t first_position) = 0;
  // Makes every later call to the storage fail (true), or work again (false).
  virtual void set_failing(bool fails) = 0;
  // Sets the time that the storage needs for a record; a long time is a storage that is silent.
  virtual void set_record_ns(int64_t ns) = 0;
  // Makes the storage return sound records of other texts in place of the wanted ones, from now on.
  virtual void make_lie() = 0;
  // Makes the storage refuse all further records.
  virtual void set_full(bool full) = 0;
  // Number of calls to the storage so far.
  virtual size_t n_calls() const = 0;
};

class FilePlace : public TierPlace {
 public:
  FilePlace() {
    files_.before_call = [this](std::string_view what) {
      if (what == "open_to_read" && record_ns_ > 0) clock_->advance(record_ns_);
    };
  }
  std::unique_ptr<KvTier> open(const LaterFingerprint& fingerprint, KvPagePool& pool, WatchedClock& clock,
                               uint64_t eager_bytes_per_s) override {
    clock_ = &clock;
    FileTierOptions options{.directory = directory_, .fingerprint = fingerprint, .budget_bytes = 1u << 30};
    options.eager_bytes_per_s = eager_bytes_per_s;
    options.durable = false;  // syncing is slow, and makes a difference only at a power loss
    return *FileTier::open(std::move(options), pool, files_, clock, std::make_unique<NeverIdle>());
  }
  void damage(size_t first_position) override {
    const std::vector<std::string> names = *system_file_ops().list(directory_);
    for (const std::string& name : names) {
      if (!name.ends_with(".kv")) continue;
      std::string bytes = read_whole_file(directory_ + "/" + name);
      if (parse_kv_record_header(std::as_bytes(std::span(bytes)))->first_position != first_position) continue;
      bytes.back() ^= 1;
      std::ofstream(directory_ + "/" + name, std::ios::binary | std::ios::trunc) << bytes;
    }
  }
  void set_failing(bool fails) override { fails ? files_.crash_at_call(0) : files_.recover(); }
  void set_record_ns(int64_t ns) override { record_ns_ = ns; }
  void make_lie() override {  // each file gets the content of the next one
    std::vector<std::string> names, contents;
    const std::vector<std::string> all = *system_file_ops().list(directory_);
    for (const std::string& name : all) {
      if (name.ends_with(".kv"))
        names.push_back(directory_ + "/" + name), contents.push_back(read_whole_file(names.back()));
    }
    for (size_t i = 0; i < names.size(); ++i) {
      std::ofstream(names[i], std::ios::binary | std::ios::trunc) << contents[(i + 1) % names.size()];
    }
  }
  void set_full(bool full) override { full ? files_.crash_at_call(0) : files_.recover(); }
  size_t n_calls() const override { return static_cast<size_t>(files_.calls()); }

 private:
  WatchedClock* clock_ = nullptr;
  std::atomic<int64_t> record_ns_{0};
  const TempDir dir_;
  const std::string directory_ = dir_.file("tier");
  FaultyFileOps files_;
};

class StorePlace : public TierPlace {
 public:
  std::unique_ptr<KvTier> open(const LaterFingerprint& fingerprint, KvPagePool& pool, WatchedClock& clock,
                               uint64_t eager_bytes_per_s) override {
    store_->advance = [&clock](int64_t ns) { clock.advance(ns); };
    return std::make_unique<RecordTier>(
        RecordTierOptions{.fingerprint = fingerprint, .eager_bytes_per_s = eager_bytes_per_s}, store_, pool, clock,
        std::make_unique<NeverIdle>());
  }
  void damage(size_t first_position) override { store_->damage(first_position); }
  void set_failing(bool fails) override { store_->fails = fails; }
  void set_record_ns(int64_t ns) override { store_->record_ns = ns; }
  void make_lie() override { store_->lies = true; }
  void set_full(bool full) override { store_->is_full = full; }
  size_t n_calls() const override { return store_->n_calls; }

 private:
  const std::shared_ptr<MemoryStore> store_ = std::make_shared<MemoryStore>();
};

// Passes the calls to another store, and lets the clock advance before each record.
class SlowStore : public RecordStore {
 public:
  SlowStore(std::unique_ptr<RecordStore> store, const std::atomic<int64_t>& record_ns, WatchedClock& clock)
      : store_(std::move(store)), record_ns_(record_ns), clock_(clock) {}

  Status get(std::span<const PageName> names, ReadTimer& timer, const Take& take) override {
    return store_->get(names, timer, [&](size_t i, std::span<const std::byte> record) {
      if (timer.is_over()) return false;
      const int64_t left_ns = timer.left().count(), wanted_ns = record_ns_;
      if (wanted_ns > 0) clock_.advance(std::min(left_ns, wanted_ns));
      return wanted_ns <= left_ns && take(i, record);
    });
  }
  Status put(const PageName& name, Pieces pieces, bool replaces) override {
    return store_->put(name, pieces, replaces);
  }
  Status remove(const PageName& name, ReadTimer& timer) override { return store_->remove(name, timer); }
  Result<std::vector<std::vector<std::byte>>> tails(const PageName& name, ReadTimer& timer) override {
    return store_->tails(name, timer);
  }
  Status add_tail(const PageName& name, std::span<const std::byte> tail) override {
    return store_->add_tail(name, tail);
  }
  Result<uint64_t> epoch(const Sha256Digest& name_space, ReadTimer& timer) override {
    return store_->epoch(name_space, timer);
  }
  Status raise_epoch(const Sha256Digest& name_space, uint64_t epoch) override {
    return store_->raise_epoch(name_space, epoch);
  }

 private:
  const std::unique_ptr<RecordStore> store_;
  const std::atomic<int64_t>& record_ns_;
  WatchedClock& clock_;
};

// A server that speaks RESP; with a key, its values are sealed.
class RespPlace : public TierPlace {
 public:
  explicit RespPlace(bool has_key) {
    if (!has_key) return;
    key_file_ = dir_.write("key", std::string(64, 'a') + "\n");
    std::filesystem::permissions(key_file_, std::filesystem::perms::owner_read);
  }
  std::unique_ptr<KvTier> open(const LaterFingerprint& fingerprint, KvPagePool& pool, WatchedClock& clock,
                               uint64_t eager_bytes_per_s) override {
    clock_ = &clock;
    shared_ = *net::SharedServer::open(server_.url(), key_file_, clock);
    auto store = std::make_unique<RespStore>(shared_, most_record_bytes(pool.layout()));
    return std::make_unique<RecordTier>(
        RecordTierOptions{.fingerprint = fingerprint, .eager_bytes_per_s = eager_bytes_per_s},
        std::make_shared<SlowStore>(std::move(store), record_ns_, clock), pool, clock, std::make_unique<NeverIdle>());
  }
  void damage(size_t first_position) override {
    server_.edit([&](const std::string& key, const std::string& value) {
      std::string stored = value;
      if (!key.starts_with(kRecords)) return stored;
      const std::span<std::byte> record = *shared_->opened(key, std::as_writable_bytes(std::span(stored)));
      if (parse_kv_record_header(record)->first_position != first_position) return value;
      record.back() ^= std::byte{1};
      const std::span<const std::byte> pieces[] = {record};
      std::vector<std::byte> sealed;
      std::string changed;
      const auto damaged = *shared_->to_store(key, pieces, sealed);
      for (const auto piece : damaged) changed.append(reinterpret_cast<const char*>(piece.data()), piece.size());
      return changed;
    });
  }
  void set_failing(bool fails) override {
    server_.set_down(fails);
    for (int i = 0; !fails && i < 1000 && !shared_->connections().breaker().allows_calls(); ++i) {
      clock_->advance(1'000'000'000);
      std::this_thread::sleep_for(std::chrono::milliseconds(10));
    }
  }
  void set_record_ns(int64_t ns) override { record_ns_ = ns; }
  void make_lie() override {
    server_.set_script([this](const RespServer::Words& words) -> std::optional<std::string> {
      if (words[0] != "GETEX" || !words[1].starts_with(kRecords)) return std::nullopt;
      std::vector<std::string> records;
      for (auto& [key, value] : server_.data()) {
        if (key.starts_with(kRecords)) records.push_back(value);
      }
      if (records.empty()) return std::nullopt;
      const std::string& lie = records[++n_lies_ * 7 % records.size()];
      return "$" + std::to_string(lie.size()) + "\r\n" + lie + "\r\n";
    });
  }
  void set_full(bool full) override {
    if (!full) return server_.set_script({});
    server_.set_script([](const RespServer::Words& words) -> std::optional<std::string> {
      if (words[0] != "SET" && words[0] != "LPUSH") return std::nullopt;
      return "-OOM command not allowed when used memory > 'maxmemory'.\r\n";
    });
  }
  size_t n_calls() const override {
    size_t n = 0;
    for (const char* name : {"GETEX", "SET", "DEL", "LPUSH", "LRANGE", "GET", "WATCH"}) n += server_.n_commands(name);
    return n;
  }

 private:
  static constexpr std::string_view kRecords = "ibid:r4:";
  const TempDir dir_;
  std::string key_file_;
  WatchedClock* clock_ = nullptr;
  std::atomic<int64_t> record_ns_{0};
  std::atomic<size_t> n_lies_{0};
  RespServer server_;
  std::shared_ptr<net::SharedServer> shared_;
};

struct PlaceMaker {
  const char* name;
  std::unique_ptr<TierPlace> (*make)();
};
const PlaceMaker kPlaces[] = {
    {"Files", [] { return std::unique_ptr<TierPlace>(std::make_unique<FilePlace>()); }},
    {"Records", [] { return std::unique_ptr<TierPlace>(std::make_unique<StorePlace>()); }},
    {"Resp", [] { return std::unique_ptr<TierPlace>(std::make_unique<RespPlace>(false)); }},
    {"RespSealed", [] { return std::unique_ptr<TierPlace>(std::make_unique<RespPlace>(true)); }},
};

Fingerprint fingerprint_of(std::string_view what) { return FingerprintBuilder().add("test", what).finish(); }

// Layouts of every KV type, and layouts whose layers differ.
struct LayoutMaker {
  const char* name;
  KvDType dtype;
  TinyKind kind = TinyKind::kPlain;
};
const LayoutMaker kLayouts[] = {{"F32", KvDType::kF32},   {"F16", KvDType::kF16},
                                {"Int8", KvDType::kInt8}, {"K8V4", KvDType::kK8V4},
                                {"Int4", KvDType::kInt4}, {"Windowed", KvDType::kInt8, TinyKind::kWindowed}};

class KvTierLaws : public testing::TestWithParam<std::tuple<PlaceMaker, LayoutMaker>> {
 protected:
  std::unique_ptr<KvTier> open(std::string_view model = "model") {
    return place_->open(fingerprint_of(model), pool_, clock_, 0);
  }
  KvCacheEntry fed(TokenSpan ids) {
    KvCacheEntry entry(pool_);
    EXPECT_TRUE(feed(entry, ids).ok());
    return entry;
  }
  void write(KvTier& tier, std::string_view name_space, TokenSpan ids) {
    tier.write_behind(name_space, fed(ids));
    const Status status = tier.flush();
    EXPECT_TRUE(status.ok()) << status.to_string();
  }
  // Returns how many of `ids` extend() finds after the first `known`, and checks that keys, values and states are
  // theirs.
  size_t found(KvTier& tier, std::string_view name_space, TokenSpan ids, size_t known = 0,
               const ReadLimits& limits = {}) {
    KvCacheEntry entry = fed(ids.first(known));
    const size_t n = tier.extend(name_space, ids, entry, limits);
    EXPECT_EQ(entry.length(), known + n);
    EXPECT_THAT(entry.tokens(), testing::ElementsAreArray(ids.first(known + n)));
    EXPECT_EQ(read_rows(entry), fresh_rows(layout_, ids.first(known + n))) << "rows of another text";
    EXPECT_EQ(read_states(entry), fresh_states(layout_, ids.first(known + n))) << "a state of another text";
    return n;
  }

  const KvLayout layout_ = tiny_layout(std::get<1>(GetParam()).kind, std::get<1>(GetParam()).dtype);
  NanPagePool pool_{layout_, 256 * layout_.page_bytes()};
  WatchedClock clock_;
  const std::unique_ptr<TierPlace> place_ = std::get<0>(GetParam()).make();
};

std::string name_of(const testing::TestParamInfo<std::tuple<PlaceMaker, LayoutMaker>>& info) {
  return std::string(std::get<0>(info.param).name) + std::get<1>(info.param).name;
}

INSTANTIATE_TEST_SUITE_P(AllTiers, KvTierLaws,
                         testing::Combine(testing::ValuesIn(kPlaces), testing::ValuesIn(kLayouts)), name_of);

// Recurrent models resume only at kept states, so the laws about exact lengths do not apply to them. Only the tests
// with concurrent calls use them.
class KvTierThreads : public KvTierLaws {};
INSTANTIATE_TEST_SUITE_P(AllTiers, KvTierThreads,
                         testing::Combine(testing::ValuesIn(kPlaces),
                                          testing::Values(LayoutMaker{"Plain", KvDType::kF32},
                                                          LayoutMaker{"Recurrent", KvDType::kF32, TinyKind::kRecurrent},
                                                          LayoutMaker{"Windowed", KvDType::kInt8, TinyKind::kWindowed},
                                                          LayoutMaker{"WindowedRecurrent", KvDType::kF32,
                                                                      TinyKind::kWindowedRecurrent})),
                         name_of);

TEST_P(KvTierLaws, StoredPagesComeBackBitForBit) {
  const Tokens ids = random_tokens(1, 64 * 5 + 17);
  const KvCacheEntry written = fed(ids);
  {
    const auto tier = open();
    tier->write_behind("alice", written);
    EXPECT_EQ(tier->stats().waiting, 6u);
    ASSERT_TRUE(tier->flush().ok());
    EXPECT_EQ(tier->stats().pages_written, 6u);
    EXPECT_EQ(tier->stats().waiting, 0u);
  }
  const auto tier = open();
  KvCacheEntry entry(pool_);
  EXPECT_EQ(tier->extend("alice", ids, entry), ids.size());
  ASSERT_EQ(entry.pages().size(), 6u);
  for (size_t i = 0; i < 5; ++i) {
    EXPECT_EQ(std::memcmp(entry.page_data()[i], written.page_data()[i], layout_.part_bytes(PagePart::kAll)), 0) << i;
  }
  EXPECT_EQ(read_rows(entry), fresh_rows(layout_, ids));
  EXPECT_EQ(tier->stats().hits, 1u);
  EXPECT_EQ(tier->stats().tokens_read, ids.size());
  EXPECT_EQ(tier->stats().pages_read, 6u);
}

TEST_P(KvTierLaws, ExtendFindsAllTokensAfterAnyKnownLength) {
  const Tokens ids = random_tokens(2, 64 * 2 + 30);
  const auto tier = open();
  write(*tier, "", ids);
  for (const size_t known : {0, 1, 63, 64, 65, 128, 157}) {
    EXPECT_EQ(found(*tier, "", ids, known), ids.size() - known) << known;
  }
  EXPECT_EQ(found(*tier, "", ids, ids.size()), 0u);
  for (const size_t same : {0, 1, 63, 64, 65, 127, 128, 150}) {
    EXPECT_EQ(found(*tier, "", concat(TokenSpan(ids).first(same), random_tokens(77, 100))), same) << same;
  }
}

TEST_P(KvTierLaws, EntryReadFromTheTierContinuesLikeAComputedEntry) {
  const Tokens ids = random_tokens(3, 200);
  const auto tier = open();
  write(*tier, "", TokenSpan(ids).first(150));
  KvCacheEntry entry = fed(TokenSpan(ids).first(70));
  ASSERT_TRUE(entry.reserve(500).ok());
  ASSERT_EQ(tier->extend("", TokenSpan(ids).first(199), entry), 80u);
  ASSERT_TRUE(feed(entry, TokenSpan(ids).subspan(150)).ok());
  EXPECT_EQ(read_rows(entry), fresh_rows(layout_, ids));
}

TEST_P(KvTierLaws, DeadlineStopsReadingAfterAWholePage) {
  const Tokens ids = random_tokens(4, 64 * 6 + 9);
  const auto tier = open();
  write(*tier, "", ids);
  size_t n_partial = 0, longest = 0;
  for (int64_t looks = 0; longest < ids.size(); ++looks) {
    ASSERT_LT(looks, 1000) << "reading never completes";
    const size_t n = found(*tier, "", ids, 0, {.deadline_ns = clock_.now_ns() + looks});
    EXPECT_TRUE(n % kPagePositions == 0 || n == ids.size()) << n;
    EXPECT_LE(n, static_cast<size_t>(looks) * kPagePositions) << "a page was started after the deadline";
    n_partial += n > 0 && n < ids.size() ? 1 : 0;
    longest = std::max(longest, n);
  }
  EXPECT_GT(n_partial, 0u);
  EXPECT_EQ(found(*tier, "", ids, 70, {.deadline_ns = clock_.now_ns()}), 0u) << "the deadline has passed already";
  EXPECT_EQ(tier->stats().quarantined, 0u);
}

TEST_P(KvTierLaws, StopRequestStopsReadingAfterAWholePage) {
  const Tokens ids = random_tokens(5, 64 * 6 + 9);
  const auto tier = open();
  write(*tier, "", ids);
  constexpr int64_t kFar = int64_t{1} << 60;  // a deadline far away, so that the tier reads the clock
  size_t n_partial = 0;
  for (int at = 1, n_whole = 0; n_whole == 0; ++at) {
    ASSERT_LT(at, 1000);
    std::stop_source source;
    std::atomic<int> looks{0};
    clock_.when_looked_at([&] {
      if (++looks == at) source.request_stop();
    });
    const size_t n = found(*tier, "", ids, 0, {.stop = source.get_token(), .deadline_ns = kFar});
    clock_.when_looked_at({});
    n_whole += n == ids.size() ? 1 : 0;  // the stop came after the last page
    EXPECT_TRUE(n == ids.size() || n % kPagePositions == 0) << n;
    n_partial += n > 0 && n < ids.size() ? 1 : 0;
  }
  EXPECT_GT(n_partial, 0u);
  std::stop_source stopped;
  stopped.request_stop();
  EXPECT_EQ(found(*tier, "", ids, 70, {.stop = stopped.get_token()}), 0u);
  EXPECT_EQ(found(*tier, "", ids), ids.size()) << "the next call reads all";
}

// A storage that answers slowly, or not at all: whole pages that came in time are used.
TEST_P(KvTierLaws, LookUpEndsTwoSecondsAfterTheLastPage) {
  const Tokens ids = random_tokens(20, 64 * 6 + 9);
  const auto tier = open();
  write(*tier, "", ids);
  constexpr int64_t kSecond = 1'000'000'000;
  place_->set_record_ns(kSecond / 2);
  EXPECT_EQ(found(*tier, "", ids), ids.size()) << "no page is late";
  const size_t in_time = found(*tier, "", ids, 0, {.deadline_ns = clock_.now_ns() + 2 * kSecond});
  EXPECT_GE(in_time, 64u);
  EXPECT_LE(in_time, 5 * 64u);
  place_->set_record_ns(60 * kSecond);
  const int64_t begin_ns = clock_.now_ns();
  EXPECT_LE(found(*tier, "", ids), 2 * 64u) << "at most the pages that were being read";
  EXPECT_LE(clock_.now_ns() - begin_ns, 2 * 60 * kSecond + kSecond);
  place_->set_record_ns(0);
  EXPECT_EQ(found(*tier, "", ids), ids.size());
  EXPECT_EQ(tier->stats().quarantined, 0u);
}

TEST_P(KvTierLaws, WriteBehindNeverCallsTheStorage) {
  const Tokens ids = random_tokens(21, 64 * 6 + 9);
  const auto tier = open();
  write(*tier, "", TokenSpan(ids).first(200));
  place_->set_record_ns(int64_t{60} * 1'000'000'000);
  const KvCacheEntry entry = fed(ids);
  const size_t n_before = place_->n_calls();
  const int64_t begin_ns = clock_.now_ns();
  tier->write_behind("", entry);
  tier->write_behind("", entry);
  EXPECT_EQ(place_->n_calls(), n_before) << "whether a page is stored is answered from memory";
  EXPECT_LT(clock_.now_ns() - begin_ns, 1'000'000);
  EXPECT_EQ(tier->stats().waiting, 4u) << "three pages are stored";
}

// No processor is ever idle in these tests.
TEST_P(KvTierLaws, EagerTierStoresWholePagesOfABusyMachine) {
  const Tokens ids = random_tokens(25, 64 * 6 + 9);
  const auto tier = place_->open(fingerprint_of("model"), pool_, clock_, uint64_t{1} << 40);
  tier->write_behind("", fed(ids));
  const auto until = std::chrono::steady_clock::now() + std::chrono::seconds(30);
  while (tier->stats().pages_written < 6 && std::chrono::steady_clock::now() < until) std::this_thread::yield();
  EXPECT_EQ(tier->stats().pages_written, 6u);
  EXPECT_EQ(found(*tier, "", ids), 64u * 6);
}

TEST_P(KvTierLaws, StorageThatLiesGivesNoWrongToken) {
  std::vector<Tokens> texts;
  const auto tier = open();
  const Tokens head = random_tokens(30, 100, 3);
  for (uint64_t i = 0; i < 8; ++i) texts.push_back(concat(head, random_tokens(31 + i, 40 * i, 3)));
  for (const Tokens& text : texts) write(*tier, "", text);
  place_->make_lie();
  for (int round = 0; round < 40; ++round) {
    for (const Tokens& text : texts) static_cast<void>(found(*tier, "", text));  // which checks every row
  }
}

TEST_P(KvTierLaws, FullStorageDropsRecordsAndStillReads) {
  const Tokens a = random_tokens(22, 200), b = random_tokens(23, 300);
  const auto tier = open();
  write(*tier, "", a);
  const size_t n_written = tier->stats().pages_written;
  place_->set_full(true);
  tier->write_behind("", fed(b));
  const size_t n_before = place_->n_calls();
  EXPECT_FALSE(tier->flush().ok());
  EXPECT_LE(place_->n_calls(), n_before + 4) << "pages after a page that was refused cannot be found, so are not sent";
  EXPECT_EQ(tier->stats().dropped, 5u);
  EXPECT_EQ(tier->stats().pages_written, n_written);
  EXPECT_EQ(tier->stats().waiting, 0u);
  place_->set_full(false);
  EXPECT_EQ(found(*tier, "", a), a.size());
  clock_.advance(WriteBehind::kBackOffNs);
  write(*tier, "", b);
  EXPECT_EQ(found(*tier, "", b), b.size());
}

// The files of the model are still being hashed: a look-up waits up to its limits, and nothing fails.
class KvTierFingerprints : public KvTierLaws {};
INSTANTIATE_TEST_SUITE_P(AllTiers, KvTierFingerprints,
                         testing::Combine(testing::ValuesIn(kPlaces),
                                          testing::Values(LayoutMaker{"F32", KvDType::kF32})),
                         name_of);
TEST_P(KvTierFingerprints, UnknownFingerprintIsAMissAndWritesNothing) {
  const Tokens ids = random_tokens(24, 200);
  std::promise<void> hashed;
  std::shared_future<void> done = hashed.get_future().share();
  const LaterFingerprint later(fingerprint_of("settings"),
                               std::make_shared<LaterDigest>([done](const std::stop_token&) -> Result<Sha256Digest> {
                                 done.wait();
                                 return fingerprint_of("files").bytes;
                               }));
  const auto tier = place_->open(later, pool_, clock_, 0);
  EXPECT_EQ(found(*tier, "", ids, 0, {.deadline_ns = clock_.now_ns() + 1'000'000}), 0u);
  tier->write_behind("", fed(ids));
  EXPECT_EQ(tier->stats().dropped, 4u);
  EXPECT_EQ(tier->flush().code(), ErrorCode::kDeadline);
  hashed.set_value();
  EXPECT_EQ(found(*tier, "", ids), 0u);
  write(*tier, "", ids);
  EXPECT_EQ(found(*tier, "", ids), ids.size());
}

TEST_P(KvTierLaws, OtherNamespacesAndFingerprintsAreNotFound) {
  const Tokens ids = random_tokens(6, 130);
  write(*open(), "alice", ids);
  const auto other = open("another model");
  EXPECT_EQ(found(*other, "alice", ids), 0u);
  write(*other, "alice", TokenSpan(ids).first(70));
  EXPECT_EQ(found(*other, "alice", ids), 70u);
  EXPECT_EQ(found(*other, "bob", ids), 0u);
}

TEST_P(KvTierLaws, PagesBeforeADamagedPageAreUsed) {
  const Tokens ids = random_tokens(7, 256);
  const auto tier = open();
  write(*tier, "", ids);
  place_->damage(128);
  EXPECT_EQ(found(*tier, "", ids), 128u);
  EXPECT_EQ(found(*tier, "", ids), 128u);
  EXPECT_EQ(found(*tier, "", ids, 192), 64u) << "pages after the damaged one are used once that was computed";
}

TEST_P(KvTierLaws, FailingStorageCausesOnlyMisses) {
  const Tokens a = random_tokens(8, 200), b = random_tokens(9, 200);
  const auto tier = open();
  write(*tier, "", a);
  place_->set_failing(true);
  const KvCacheEntry entry = fed(b);
  EXPECT_EQ(found(*tier, "", a, 70), 0u);
  tier->write_behind("", entry);
  EXPECT_FALSE(tier->flush().ok());
  EXPECT_FALSE(tier->stats().disabled_reason.empty());
  EXPECT_GT(tier->stats().failures, 0u);
  EXPECT_EQ(tier->stats().waiting, 0u) << "queued pages were dropped";
  EXPECT_EQ(read_rows(entry), fresh_rows(layout_, b));
  place_->set_failing(false);
  clock_.advance(WriteBehind::kBackOffNs);
  write(*tier, "", b);
  EXPECT_TRUE(tier->stats().disabled_reason.empty());
  EXPECT_EQ(found(*tier, "", b), b.size());
}

TEST_P(KvTierLaws, ReadThatRunsOutOfHeapMemoryIsAMiss) {
  const Tokens ids = random_tokens(10, 200);
  const auto tier = open();
  write(*tier, "", ids);
  for (size_t n = 0;; ++n) {
    KvCacheEntry entry = fed(TokenSpan(ids).first(30));
    bool fired = false;
    size_t added = 0;
    {
      const FailingNew fault(n);
      added = tier->extend("", ids, entry);
      fired = fault.has_failed();
    }
    ASSERT_EQ(entry.length(), 30 + added) << n;
    ASSERT_EQ(read_rows(entry), fresh_rows(layout_, TokenSpan(ids).first(30 + added))) << n;
    if (!fired) {
      EXPECT_EQ(added, 170u);
      break;
    }
  }
}

TEST_P(KvTierLaws, PoolReclaimsPagesQueuedForWriting) {
  KvPagePool small(layout_, 8 * layout_.page_bytes());
  const auto tier = place_->open(fingerprint_of("model"), small, clock_, 0);
  for (uint64_t round = 0; round < 5; ++round) {
    {
      KvCacheEntry entry(small);
      ASSERT_TRUE(feed(entry, random_tokens(100 + round, 512)).ok());
      tier->write_behind("", entry);
    }
    EXPECT_EQ(tier->stats().waiting, 4u) << "half of the pool";
    const Result<std::vector<KvPage>> all = small.allocate(8);
    ASSERT_TRUE(all.ok()) << all.status().to_string();
    EXPECT_EQ(tier->stats().waiting, 0u);
  }
  EXPECT_EQ(tier->stats().dropped, 5u * 8u);
}

TEST_P(KvTierLaws, ClearRemovesOneNamespaceOnly) {
  const Tokens ids = random_tokens(11, 130);
  const auto tier = open();
  write(*tier, "alice", ids);
  write(*tier, "bob", ids);
  tier->write_behind("alice", fed(random_tokens(12, 130)));
  ASSERT_TRUE(tier->clear("alice").ok());
  EXPECT_EQ(tier->stats().waiting, 0u);
  EXPECT_EQ(found(*tier, "alice", ids), 0u);
  EXPECT_EQ(found(*tier, "bob", ids), 130u);
  write(*tier, "alice", TokenSpan(ids).first(64));
  EXPECT_EQ(found(*tier, "alice", ids), 64u);
}

TEST_P(KvTierThreads, AllCallsMayRunConcurrently) {
  const auto tier = open();
  std::vector<std::thread> threads;
  for (uint64_t t = 0; t < 4; ++t) {
    threads.emplace_back([&, t] {
      for (uint64_t i = 0; i < 15; ++i) {
        const Tokens ids = random_tokens((t + i) % 5, 300);
        const std::string name_space = (t + i) % 2 == 0 ? "alice" : "bob";
        static_cast<void>(found(*tier, name_space, ids));
        KvCacheEntry entry = fed(ids);
        if (i % 2 == 0) {  // evict the window part of every other page
          EXPECT_TRUE(feed_in_passes(entry, random_tokens(1, 120), 20).ok());
          lose_windows(pool_, entry);
        }
        tier->write_behind(name_space, entry);
        if (i % 8 == 7) static_cast<void>(tier->clear(name_space));
        if (i % 4 == 3) static_cast<void>(tier->flush());
      }
    });
  }
  for (std::thread& thread : threads) thread.join();
  static_cast<void>(tier->flush());
  EXPECT_EQ(tier->stats().failures, 0u);
  EXPECT_EQ(tier->stats().quarantined, 0u);
}

}  // namespace
}  // namespace ibid
