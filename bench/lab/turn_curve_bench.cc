#include "bench/lab/turn_curve_bench.h"

#include <fcntl.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstdlib>
#include <cstring>
#include <filesystem>
#include <optional>
#include <system_error>
#include <utility>
#include <vector>

#include "base/checked.h"
#include "base/clock.h"
#include "base/file_ops.h"
#include "bench/lab/chat_turns.h"
#include "bench/lab/model_work.h"
#include "cache/store/lru_kv_cache_store.h"
#include "cache/tier/file_tier.h"
#include "runtime/generate/feeding.h"

namespace ibid {

namespace fs = std::filesystem;

Result<std::unique_ptr<ScratchDirectory>> ScratchDirectory::create() {
  std::error_code error;
  const fs::path parent = fs::temp_directory_path(error);
  if (error) return errno_status(error.value(), "$TMPDIR", "find the directory for temporary files");
  std::string path = (parent / "ibid_bench_XXXXXX").string();
  if (::mkdtemp(path.data()) == nullptr) return errno_status(errno, path, "make a temporary directory");
  return std::unique_ptr<ScratchDirectory>(new ScratchDirectory(std::move(path)));
}

ScratchDirectory::~ScratchDirectory() {
  std::error_code ignored;
  fs::remove_all(path_, ignored);
}

void ScratchDirectory::empty() const {
  std::error_code ignored;
  for (fs::directory_iterator entry(path_, ignored), end; !ignored && entry != end; entry.increment(ignored)) {
    std::error_code busy;
    fs::remove_all(entry->path(), busy);
  }
}

void ScratchDirectory::forget_files() const {
  std::error_code ignored;
  for (fs::recursive_directory_iterator entry(path_, ignored), end; !ignored && entry != end;
       entry.increment(ignored)) {
    std::error_code unknown;
    if (!entry->is_regular_file(unknown)) continue;
    const int file = ::open(entry->path().c_str(), O_RDONLY | O_CLOEXEC | O_NOFOLLOW);
    if (file < 0) continue;
    (void)::posix_fadvise(file, 0, 0, POSIX_FADV_DONTNEED);
    ::close(file);
  }
}

namespace {

constexpr size_t kFirstReplyTokens = 8;
constexpr const char* kNamespace = "";

TurnOptions greedy(size_t max_tokens) {
  TurnOptions options;
  options.sampler.temperature = 0;
  options.max_tokens = max_tokens;
  return options;
}

// Returns the logits after the session's last token, which depend on every stored bit.
Result<std::vector<float>> logits_after(const ChatSession& session) {
  TRY_ASSIGN(KvCacheEntry entry, session.state().kv().fork());
  const TokenSpan ids = session.ids();
  const size_t n_left = entry.slice_to_at_most(ids.size() - 1);
  Logits logits;
  TRY(feed(session.engine()->state().scheduler(), entry, ids.subspan(n_left), WantLogits::kLast, {}, logits));
  return std::vector<float>(logits.row(0).begin(), logits.row(0).end());
}

bool same_bits(const std::vector<float>& a, const std::vector<float>& b) {
  return a.size() == b.size() && std::memcmp(a.data(), b.data(), a.size() * sizeof(float)) == 0;
}

}  // namespace

// State at the start of a point's rounds.
struct TurnCurveBench::Prepared {
  ChatSession session;  // session with the history
  KvCacheEntry rows;    // the session's keys and values, kept here because the store is cleared between turns
  Tokens prompt;        // prompt with one more message, for the pass without a session
  size_t n_cached = 0;  // number of tokens of `prompt` that are cached
};

struct TurnCurveBench::Sample {
  double ttft_ms = 0;
  size_t n_prompt = 0, n_cached = 0, n_prefilled = 0;
  Tokens ids;
  std::vector<float> logits;
};

Result<std::unique_ptr<TurnCurveBench>> TurnCurveBench::create(EngineFactory factory, const Options& options) {
  TRY_ASSIGN(std::unique_ptr<ScratchDirectory> scratch, ScratchDirectory::create());
  TRY_ASSIGN(std::shared_ptr<Engine> engine, factory(""));
  return std::unique_ptr<TurnCurveBench>(
      new TurnCurveBench(std::move(factory), options, std::move(scratch), std::move(engine)));
}

TurnCurveBench::TurnCurveBench(EngineFactory factory, const Options& options, std::unique_ptr<ScratchDirectory> scratch,
                               std::shared_ptr<Engine> engine)
    : factory_(std::move(factory)), options_(options), scratch_(std::move(scratch)), engine_(std::move(engine)) {}

// Returns a message with different words in every round, so that no cache has the message of an earlier round.
std::string TurnCurveBench::question(size_t round) const {
  constexpr const char* kLead = "Please go on, and bring in these words:";
  return text_of_tokens(engine_->state().tokenizer(), kLead, options_.message_tokens, round);
}

Result<TurnCurveBench::Sample> TurnCurveBench::ask(ChatSession session, size_t round, double spent_ms) const {
  TRY_ASSIGN(const Turn turn, session.send(question(round), greedy(kCurveAnswer)));
  Sample sample;
  sample.ttft_ms = spent_ms + turn.timings.ttft_ms;
  sample.n_prompt = turn.usage.n_prompt;
  sample.n_cached = turn.usage.n_cached;
  sample.n_prefilled = turn.usage.n_prefilled;
  sample.ids = session.ids();
  TRY_ASSIGN(sample.logits, logits_after(session));
  return sample;
}

Result<TurnCurveBench::Sample> TurnCurveBench::warm_turn(const Prepared& prepared, size_t round) const {
  engine_->state().store().clear(kNamespace);  // so that the turn reuses only the session's own keys and values
  TRY_ASSIGN(KvCacheEntry own, prepared.rows.fork());
  TRY(engine_->state().store().insert(kNamespace, own));
  TRY_ASSIGN(ChatSession session, prepared.session.fork());
  return ask(std::move(session), round, 0);
}

Result<TurnCurveBench::Sample> TurnCurveBench::loaded_turn(std::shared_ptr<Engine> engine, size_t round) const {
  Clock& clock = engine->state().clock();
  const int64_t start = clock.steady_ns();
  TRY_ASSIGN(ChatSession session, ChatSession::load(std::move(engine), saved_path()));
  return ask(std::move(session), round, milliseconds_since(clock, start));
}

Result<TurnCurveBench::Sample> TurnCurveBench::cold_turn(size_t round) const {
  engine_->state().store().clear(kNamespace);
  return loaded_turn(engine_, round);
}

Result<TurnCurveBench::Sample> TurnCurveBench::resumed_turn(size_t round) const {
  if (options_.forget_files) scratch_->forget_files();
  TRY_ASSIGN(std::shared_ptr<Engine> engine, factory_(cache_path()));
  if (engine->state().tier() == nullptr) return engine->state().tier_status();
  return loaded_turn(std::move(engine), round);
}

// Returns the time of one pass with as many rows as the warm turn prefills, at the same positions: the model's part of
// the turn's time.
Result<double> TurnCurveBench::pass_ms(const Prepared& prepared) const {
  TRY_ASSIGN(KvCacheEntry entry, prepared.rows.fork());
  const size_t n_left = entry.slice_to_at_most(prepared.n_cached);
  Logits logits;
  const int64_t start = engine_->state().clock().steady_ns();
  const TokenSpan rest = TokenSpan(prepared.prompt).subspan(n_left);
  TRY(feed(engine_->state().scheduler(), entry, rest, WantLogits::kLast, {}, logits));
  return milliseconds_since(engine_->state().clock(), start);
}

// Returns a session with a conversation of `history` tokens, or a few more.
Result<ChatSession> TurnCurveBench::begin_conversation(const std::shared_ptr<Engine>& engine, size_t history) const {
  SessionOptions options;
  options.cache_namespace = kNamespace;
  options.repair_when_idle = false;  // Two engines share one model, so no engine may compute between the turns.
  TRY_ASSIGN(ChatSession session, ChatSession::create(engine, std::move(options)));
  if (history == 0) return session;
  TRY_ASSIGN(const size_t around, tokens_around_first_message(*engine));
  const size_t others = around + kFirstReplyTokens;
  const std::string text =
      text_of_tokens(engine->state().tokenizer(), "Remember these words:", saturating_sub(history, others), history);
  TurnOptions first = greedy(kFirstReplyTokens);
  first.min_tokens = kFirstReplyTokens;
  TRY(session.send(text, first).status());
  return session;
}

// Runs the conversation in an engine that writes its cache directory, and closes the engine. Loading the saved
// conversation instead would write nothing: keys and values from a file are used only by the session that loaded them.
Status TurnCurveBench::write_cache_directory(size_t history) {
  TRY_ASSIGN(const std::shared_ptr<Engine> engine, factory_(cache_path()));
  if (engine->state().tier() == nullptr) return engine->state().tier_status();
  TRY(begin_conversation(engine, history).status());
  return engine->state().tier()->flush();
}

Result<TurnCurveBench::Prepared> TurnCurveBench::prepare(size_t history) {
  engine_->state().store().clear(kNamespace);
  scratch_->empty();
  TRY_ASSIGN(ChatSession session, begin_conversation(engine_, history));
  TRY(session.save(saved_path()));
  TRY(write_cache_directory(history));

  // The first turn and the first pass are warm-ups.
  KvCacheEntry rows = session.state().kv();
  Prepared prepared{std::move(session), std::move(rows), {}, 0};
  TRY_ASSIGN(const Sample sample, warm_turn(prepared, 0));
  prepared.prompt.assign(sample.ids.begin(), sample.ids.begin() + static_cast<std::ptrdiff_t>(sample.n_prompt));
  prepared.n_cached = sample.n_cached;
  TRY(pass_ms(prepared).status());
  return prepared;
}

Result<TurnCurvePoint> TurnCurveBench::measure(size_t history) {
  TRY_ASSIGN(const Prepared prepared, prepare(history));
  TurnCurvePoint point;
  point.history = prepared.session.ids().size();
  point.same_text = point.same_bits = true;
  std::vector<double> warm_ms, cold_ms, resumed_ms, passes_ms, outside_ms;
  for (size_t round = 1; round <= options_.rounds; ++round) {
    Sample warm, cold, resumed;
    double pass = 0;
    const auto hold = [&]() -> Status {
      TRY_ASSIGN(warm, warm_turn(prepared, round));
      return {};
    };
    const bool forward = round % 2 == 1;  // alternate the order of the measurements
    if (forward) TRY(hold());
    if (!forward) {
      TRY_ASSIGN(cold, cold_turn(round));
    }
    TRY_ASSIGN(pass, pass_ms(prepared));
    if (!forward) TRY(hold());
    TRY_ASSIGN(resumed, resumed_turn(round));
    if (forward) {
      TRY_ASSIGN(cold, cold_turn(round));
    }
    warm_ms.push_back(warm.ttft_ms);
    cold_ms.push_back(cold.ttft_ms);
    resumed_ms.push_back(resumed.ttft_ms);
    passes_ms.push_back(pass);
    outside_ms.push_back(warm.ttft_ms - pass);
    point.same_text = point.same_text && warm.ids == cold.ids && warm.ids == resumed.ids;
    point.same_bits = point.same_bits && same_bits(warm.logits, cold.logits) && same_bits(warm.logits, resumed.logits);
    if (round > 1) continue;
    point.n_prompt = warm.n_prompt;
    point.n_prefilled_warm = warm.n_prefilled;
    point.n_prefilled_cold = cold.n_prefilled;
    point.n_prefilled_resumed = resumed.n_prefilled;
  }
  point.warm_ms = spread_of(std::move(warm_ms));
  point.cold_ms = spread_of(std::move(cold_ms));
  point.resumed_ms = spread_of(std::move(resumed_ms));
  point.pass_ms = spread_of(std::move(passes_ms));
  point.outside_pass_ms = spread_of(std::move(outside_ms)).median;
  return point;
}

}  // namespace ibid
