// Audits of records that real models wrote: with full attention, windows, recurrent states and latent rows. A right
// record is right on every instruction set, and a record with wrong bits and right checksums is named and removed.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <cstring>
#include <functional>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "cache/tier/kv_tier.h"
#include "cache/tier/page_name.h"
#include "cache/tier/record_tier.h"
#include "cache/tier/record_tree.h"
#include "cache/tier/writer_id.h"
#include "runtime/audit/idle_audit.h"
#include "runtime/audit/record_audit.h"
#include "tests/cache/forged_records.h"
#include "tests/cache/memory_store.h"
#include "tests/runtime/chat_fixture.h"
#include "tests/runtime/tiny_chat.h"
#include "tests/support/idle_fakes.h"
#include "tests/support/memory_file_ops.h"
#include "tests/support/paths.h"

namespace ibid {
namespace {

struct Family {
  const char* name;  // of a checkpoint of the reference data; "llama": a model of this test
  KvDType kv_dtype;
};

void PrintTo(const Family& family, std::ostream* out) { *out << family.name; }

// Full attention; windows of 16 positions; several kinds of recurrent layers; recurrent layers beside latent rows.
constexpr Family kFamilies[] = {{"llama", KvDType::kInt8},    {"gemma3_text", KvDType::kInt8},
                                {"gpt_oss", KvDType::kF16},   {"qwen3_5_text", KvDType::kInt8},
                                {"lfm2", KvDType::kK8V4},     {"kimi_linear", KvDType::kF16},
                                {"falcon_h1", KvDType::kInt4}};

using Files = std::map<std::string, std::string>;

// A sampled answer without parts of characters and control tokens, so that it is the same when rendered as history.
TurnOptions spoken(uint64_t seed, size_t max_tokens) {
  static const FakeTokenizer tokenizer = FakeTokenizer::small();
  TurnOptions options{.sampler = {.temperature = 1.0, .min_p = 0, .seed = seed}, .max_tokens = max_tokens};
  for (TokenId id = 128; id < 256; ++id) options.sampler.logit_bias[id] = -100;
  for (const char* piece : {"<|endoftext|>", "<|im_start|>", "<|tool|>", "</think>"}) {
    options.sampler.logit_bias[*tokenizer.find_token(piece)] = -100;
  }
  return options;
}

class AuditTest : public testing::TestWithParam<Family> {
 protected:
  void SetUp() override {
    if (!is_own_model() && !shared_dir()) GTEST_SKIP() << "the reference data is not there: set IBID_SHARED to it";
    EXPECT_TRUE(files_.make_directory("/s").ok());
  }

  bool is_own_model() const { return std::string(GetParam().name) == "llama"; }
  std::unique_ptr<TransformerModel> load(std::optional<Isa> isa = {}, int n_threads = 2, size_t max_chunk = 48) const {
    const ModelOptions options{
        .kv_dtype = GetParam().kv_dtype, .n_threads = n_threads, .isa = isa, .max_chunk = max_chunk};
    if (!is_own_model()) return load_tiny_checkpoint(*shared_dir() + "/reference/tiny/" + GetParam().name, options);
    TinyModel tiny;
    tiny.vocab_size = FakeTokenizer::small().vocab_size();
    tiny.context = kTinyContext;
    tiny.matrix_dtype = tiny.embed_dtype = tiny.head_dtype = DType::kQ8_0;
    return load_tiny_model(tiny, options);
  }
  // A process on the directory. share: of the idle audit.
  std::shared_ptr<Engine> process(std::optional<Isa> isa = {}, double share = 0) {
    EngineParts parts;
    parts.files = &files_;
    parts.fingerprint = FingerprintBuilder().add("model", GetParam().name).finish();
    parts.cache_directory = "/kv";
    parts.cache_directory_bytes = 64u << 20;
    parts.audit = {share, 1, std::make_unique<AlwaysIdle>()};
    return tiny_engine(load(isa), kChatMl, std::move(parts));
  }
  // Two conversations with the same beginning, saved without keys and values.
  void fill() {
    const auto engine = process();
    for (const std::string name : {"a", "b"}) {
      SessionOptions options{.system = std::string(150, 'z'), .now = "2026-01-31T12:00:00", .repair_when_idle = false};
      ChatSession chat = *ChatSession::create(engine, std::move(options));
      for (uint64_t i = 0; i < 3; ++i) must(chat.send(std::string(60, name[0]), spoken(i + 1, 30)));
      ASSERT_TRUE(chat.save("/s/" + name, {}).ok());
    }
  }
  Files files() {
    Files all;
    const std::vector<std::string> names = *files_.list("/kv");
    for (const std::string& name : names) {
      if (parse_record_file_name(name)) all[name] = *read_file(files_, "/kv/" + name, 64u << 20);
    }
    return all;
  }
  static KvRecordHeader header_of(const std::string& record) {
    return *parse_kv_record_header(std::as_bytes(std::span(record)));
  }
  // Returns the name of the first record, by position, of this kind that begins at or after `position`.
  std::string record_from(KvRecordKind kind, size_t position) {
    std::string found;
    size_t found_at = SIZE_MAX;
    for (const auto& [name, bytes] : files()) {
      const KvRecordHeader header = header_of(bytes);
      if (header.kind != kind || header.first_position < position || header.first_position >= found_at) continue;
      found = name;
      found_at = header.first_position;
    }
    return found;
  }
  void forge(const std::string& name, bool of_last_row = false) {
    const std::string record = files()[name];
    ASSERT_FALSE(record.empty()) << name;
    const KvLayout layout = load({}, 1)->kv_layout();
    const std::string forged = header_of(record).kind == KvRecordKind::kPage
                                   ? forged_page(layout, record)
                                   : forged_state(layout, record, of_last_row);
    ASSERT_EQ(forged.size(), record.size());
    ASSERT_NE(forged, record);
    ASSERT_TRUE(write_file_atomically(files_, "/kv/" + name, std::as_bytes(std::span(forged))).ok());
  }

  struct Audited {
    AuditCounts counts;
    std::vector<std::string> wrong;  // files
    size_t n_records = 0;
  };
  // Audits the records for which wants() is true, in another process.
  Audited audit(const std::function<bool(const TierRecord&)>& wants = {}, std::optional<Isa> isa = {}) {
    const auto engine = process(isa);
    EXPECT_NE(engine->state().tier(), nullptr) << engine->state().tier_status().message();
    TierRecords& records = *engine->state().tier()->records();
    RecordAudit audit(engine->state(), records, {});
    const RecordList list = *records.list();
    Audited audited{.n_records = list.tree.size()};
    for (size_t i = 0; i < list.tree.size(); ++i) {
      const TierRecord record = list.tree.at(i);
      if (wants && !wants(record)) continue;
      const Result<AuditResult> result = audit.audit(record);
      EXPECT_TRUE(result.ok()) << result.status().to_string();
      if (!result.ok()) continue;
      EXPECT_TRUE(result->why.ok() || result->verdict == AuditVerdict::kGone) << result->why.to_string();
      audited.counts.add(*result);
      if (result->verdict == AuditVerdict::kWrong) audited.wrong.push_back(result->removed.name);
    }
    return audited;
  }
  // Checks that all is right that is left.
  void expect_all_right() {
    const Audited rest = audit();
    EXPECT_EQ(rest.counts.n_right, rest.n_records);
    EXPECT_GT(rest.n_records, 0u);
  }

  MemoryFileOps files_;
};

TEST_P(AuditTest, RightDirectoryHasNoneWrongOnEveryInstructionSet) {
  fill();
  const Files before = files();
  for (const Isa isa : kAllIsas) {
    if (!isa_supported(isa) || (an_isa_is_forced() && isa != *active_isa())) continue;
    SCOPED_TRACE(isa_name(isa));
    const Audited audited = audit({}, isa);
    EXPECT_EQ(audited.n_records, before.size());
    EXPECT_EQ(audited.counts.n_right, audited.n_records);
    EXPECT_EQ(files(), before);
  }
}

TEST_P(AuditTest, EachRecordIsAuditedAloneFromThoseBeforeIt) {
  fill();
  for (const Isa isa : {Isa::kRef, Isa::kAvx2}) {
    if (!isa_supported(isa) || an_isa_is_forced()) continue;
    const auto engine = process(isa);
    TierRecords& records = *engine->state().tier()->records();
    const RecordList list = *records.list();
    for (size_t i = list.tree.size(); i-- > 0;) {
      RecordAudit audit(engine->state(), records, {});
      EXPECT_EQ(audit.audit(list.tree.at(i))->verdict, AuditVerdict::kRight) << i;
    }
  }
}

TEST_P(AuditTest, ForgedPageIsNamedAndRemovedWithWhatFollows) {
  fill();
  const std::string name = record_from(KvRecordKind::kPage, 128);
  const Files before = files();
  forge(name);
  const Audited audited = audit();
  EXPECT_EQ(audited.wrong, std::vector<std::string>{name});
  EXPECT_EQ(audited.counts.wrong_by_writer, (std::map<KvWriterId, size_t>{{own_writer_id(), 1}}));
  EXPECT_GT(audited.counts.n_followers, 0u);
  const Files after = files();
  EXPECT_FALSE(after.contains(name));
  EXPECT_TRUE(read_file(files_, "/kv/quarantine/" + name, 64u << 20).ok());
  EXPECT_EQ(after.size(), before.size() - 1 - audited.counts.n_followers);
  for (const auto& [file, bytes] : after) EXPECT_EQ(bytes, before.at(file)) << file;
  expect_all_right();
}

// Only a later page is audited, and differs, because it is computed from the forged one.
TEST_P(AuditTest, ForgedPageIsNamedByTheAuditOfALaterOne) {
  fill();
  const std::string name = record_from(KvRecordKind::kPage, 64);
  const size_t forged_at = header_of(files()[name]).first_position;
  forge(name);
  const Audited audited = audit([&](const TierRecord& record) {
    return record.kind == KvRecordKind::kPage && record.first_position == forged_at + kPagePositions &&
           record.n_rows() == kPagePositions;
  });
  // In the checkpoints the forged layer may be the last one, or the later page is computed from a state before it.
  if (!is_own_model() && audited.wrong.empty()) return;
  EXPECT_EQ(audited.wrong, std::vector<std::string>{name});
  expect_all_right();
}

TEST_P(AuditTest, ForgedStateIsNamed) {
  fill();
  const std::string state = record_from(KvRecordKind::kState, 1);
  if (state.empty()) GTEST_SKIP() << "no recurrent layers";
  forge(state);
  const Audited audited = audit();
  EXPECT_EQ(audited.wrong, std::vector<std::string>{state});
  EXPECT_FALSE(files().contains(state));
  expect_all_right();
}

TEST_P(AuditTest, ForgedRowOfAStateIsNamed) {
  fill();
  std::string state;
  for (const auto& [name, bytes] : files()) {
    const KvRecordHeader header = header_of(bytes);
    if (header.kind == KvRecordKind::kState && header.n_rows > 0) state = name;
  }
  if (state.empty()) GTEST_SKIP() << "no rows of recurrent layers";
  forge(state, true);
  EXPECT_EQ(audit().wrong, std::vector<std::string>{state});
  expect_all_right();
}

TEST_P(AuditTest, DamagedRecordIsUnreadableAndNotWrong) {
  fill();
  const std::string name = record_from(KvRecordKind::kPage, 64);
  std::string bytes = files()[name];
  bytes.back() ^= 1;
  ASSERT_TRUE(write_file_atomically(files_, "/kv/" + name, std::as_bytes(std::span(bytes))).ok());
  const auto engine = process();
  TierRecords& records = *engine->state().tier()->records();
  RecordAudit audit(engine->state(), records, {});
  const RecordList list = *records.list();
  AuditCounts counts;
  for (size_t i = 0; i < list.tree.size(); ++i) counts.add(*audit.audit(list.tree.at(i)));
  EXPECT_EQ(counts.n_wrong + counts.n_unexplained, 0u);
  EXPECT_EQ(counts.n_unreadable + counts.n_gone, 1u);
  EXPECT_EQ(engine->state().tier()->stats().quarantined, 1u);
}

TEST_P(AuditTest, InterruptedAuditChangesNothing) {
  fill();
  forge(record_from(KvRecordKind::kPage, 64));
  const Files before = files();
  for (size_t n_most = 0; n_most < 8; ++n_most) {
    const auto engine = process();
    TierRecords& records = *engine->state().tier()->records();
    size_t n_pieces = 0;
    RecordAudit audit(engine->state(), records,
                      {.piece_rows = 16, .before_piece = [&] { return n_pieces++ < n_most; }});
    const RecordList list = *records.list();
    Result<AuditResult> result = AuditResult{};
    for (size_t i = 0; i < list.tree.size() && result.ok(); ++i) result = audit.audit(list.tree.at(i));
    EXPECT_EQ(result.status().code(), ErrorCode::kCancelled) << n_most;
    EXPECT_EQ(files(), before) << n_most;
  }
}

TEST_P(AuditTest, IdleAuditRemovesAForgedPageThatATurnHasRead) {
  fill();
  ColdModel cold(load({}, 1, kTinyContext));
  const std::string name = record_from(KvRecordKind::kPage, 64);
  forge(name);
  const auto engine = process({}, 1.0);
  IdleAudit& audit = *engine->state().audit();
  std::vector<std::string> lines;
  audit.report_to([&](const std::string& line) { lines.push_back(line); });
  ChatSession chat = *ChatSession::load(engine, "/s/a");  // reads the directory
  audit.wait_until_done();
  const IdleAudit::Stats stats = audit.stats();
  EXPECT_EQ(stats.counts.n_wrong, 1u);
  EXPECT_EQ(stats.counts.wrong_by_writer, (std::map<KvWriterId, size_t>{{own_writer_id(), 1}}));
  EXPECT_EQ(stats.counts.n_unexplained, 0u);
  ASSERT_EQ(lines.size(), 1u);
  EXPECT_THAT(lines[0], testing::HasSubstr(name));
  EXPECT_FALSE(files().contains(name));
  // Nothing that was computed from the page is used any more.
  must(chat.send("x", spoken(8, 4)));
  expect_cold_bits(chat, cold);
  audit.report_to({});
}

TEST_P(AuditTest, IdleAuditFindsRightRecordsRight) {
  fill();
  const Files before = files();
  const auto engine = process({}, 1.0);
  ChatSession chat = *ChatSession::load(engine, "/s/b");  // reads the directory
  engine->state().audit()->wait_until_done();             // a turn would replace the last records
  must(chat.send("x", spoken(7, 4)));
  const IdleAudit::Stats stats = engine->state().audit()->stats();
  const size_t n_read = engine->state().tier()->stats().pages_read;
  EXPECT_GE(n_read, 4u);
  EXPECT_GE(stats.counts.n_right, n_read - 1) << "of the last page only a part may be used";
  EXPECT_EQ(stats.counts.n_right, stats.counts.n_audited());
  EXPECT_EQ(stats.counts.n_skipped + stats.counts.n_gone + stats.counts.n_unreadable, 0u);
  for (const auto& [name, bytes] : before) {
    if (const Files after = files(); after.contains(name)) {
      EXPECT_EQ(after.at(name), bytes) << name;
    }
  }
}

// A store that nodes share cannot list what follows a wrong record, so a new epoch removes all of the namespace.
TEST_P(AuditTest, IdleAuditOfASharedStoreBeginsANewEpoch) {
  const auto store = std::make_shared<MemoryStore>();
  const auto node = [&](std::byte writer) {
    EngineParts parts;
    parts.files = &files_;
    parts.audit = {1.0, 1, std::make_unique<AlwaysIdle>()};
    parts.open_tier = [&](KvPagePool& pool) -> Result<std::unique_ptr<KvTier>> {
      RecordTierOptions options{.fingerprint = FingerprintBuilder().add("model", GetParam().name).finish()};
      options.writer.fill(writer);
      return std::unique_ptr<KvTier>(
          std::make_unique<RecordTier>(std::move(options), store, pool, system_clock(), std::make_unique<NeverIdle>()));
    };
    return tiny_engine(load(), kChatMl, std::move(parts));
  };
  const SessionOptions options{
      .system = std::string(150, 'z'), .now = "2026-01-31T12:00:00", .repair_when_idle = false};
  {
    const auto engine = node(std::byte{1});
    ChatSession chat = *ChatSession::create(engine, options);
    for (uint64_t i = 0; i < 3; ++i) must(chat.send(std::string(60, 'a'), spoken(i + 1, 30)));
    ASSERT_TRUE(chat.save("/s/a", {}).ok());
  }
  {
    const auto engine = node(std::byte{2});
    const ChatSession chat = *ChatSession::load(engine, "/s/a");
    engine->state().audit()->wait_until_done();
    const AuditCounts counts = engine->state().audit()->stats().counts;
    EXPECT_GE(counts.n_right, 3u);
    EXPECT_EQ(counts.n_right, counts.n_audited());
  }
  const KvLayout layout = load({}, 1)->kv_layout();
  store->change_all([&](std::vector<std::byte>& record) {
    const std::string bytes = to_string(record);
    const KvRecordHeader header = header_of(bytes);
    if (header.kind != KvRecordKind::kPage || header.first_position != 64) return;
    const std::string forged = forged_page(layout, bytes);
    std::memcpy(record.data(), forged.data(), forged.size());
  });
  ColdModel cold(load({}, 1, kTinyContext));
  const auto engine = node(std::byte{2});
  ChatSession chat = *ChatSession::load(engine, "/s/a");
  engine->state().audit()->wait_until_done();
  KvWriterId first;
  first.fill(std::byte{1});
  const AuditCounts counts = engine->state().audit()->stats().counts;
  EXPECT_EQ(counts.wrong_by_writer, (std::map<KvWriterId, size_t>{{first, 1}}));
  KvCacheEntry rest(engine->state().pool());
  EXPECT_EQ(engine->state().tier()->extend("", chat.ids(), rest), 0u);
  must(chat.send("x", spoken(8, 4)));
  expect_cold_bits(chat, cold);
}

INSTANTIATE_TEST_SUITE_P(Models, AuditTest, testing::ValuesIn(kFamilies),
                         [](const auto& test) { return std::string(test.param.name); });

TEST(IdleAuditTest, EngineWithoutShareHasNone) {
  MemoryFileOps files;
  for (const double share : {0.0, 0.01}) {
    EngineParts parts;
    parts.files = &files;
    parts.fingerprint = FingerprintBuilder().add("model", "one").finish();
    parts.cache_directory = "/kv";
    parts.cache_directory_bytes = 64u << 20;
    parts.audit.share = share;
    const ChatFixture f(kChatMl, {}, 64u << 20, std::move(parts));
    EXPECT_EQ(f.engine->state().audit() != nullptr, share > 0);
  }
}

TEST(IdleAuditTest, SampleIsDrawnBySeedAndQueueIsBounded) {
  const auto n_drawn = [](double share, uint64_t seed) {
    MemoryFileOps files;
    EngineParts parts;
    parts.files = &files;
    parts.fingerprint = FingerprintBuilder().add("model", "one").finish();
    parts.cache_directory = "/kv";
    parts.cache_directory_bytes = 64u << 20;
    parts.audit = {share, seed, std::make_unique<NeverIdle>()};
    ChatFixture f(kChatMl, {}, 64u << 20, std::move(parts));
    IdleAudit& audit = *f.engine->state().audit();
    const Tokens ids(64 * 1000, 7);
    std::vector<RecordRange> used;
    for (size_t i = 0; i < 1000; ++i) used.push_back({KvRecordKind::kPage, i * 64, (i + 1) * 64});
    audit.offer("", ids, used);
    const IdleAudit::Stats stats = audit.stats();
    EXPECT_LE(stats.n_waiting, IdleAudit::kMostWaiting);
    EXPECT_EQ(stats.counts.n_audited(), 0u) << "no processor is idle";
    return stats.n_waiting + stats.n_dropped;
  };
  EXPECT_EQ(n_drawn(1.0, 1), 1000u);
  const size_t n = n_drawn(0.05, 1);
  EXPECT_GT(n, 20u);
  EXPECT_LT(n, 100u);
  EXPECT_EQ(n_drawn(0.05, 1), n);
}

}  // namespace
}  // namespace ibid
