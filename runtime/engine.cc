#include "ibid/engine.h"

#include <algorithm>
#include <sstream>
#include <system_error>
#include <utility>

#include "base/check.h"
#include "base/checked.h"
#include "base/parallel.h"
#include "base/result.h"
#include "base/thread_error.h"
#include "cache/store/lru_kv_cache_store.h"
#include "cache/tier/file_tier.h"
#include "cache/tier/record_tier.h"
#include "cache/tier/resp_store.h"
#include "cache/tier/two_tiers.h"
#include "cache/tier/writer_id.h"
#include "model/architectures/architectures.h"
#include "model/load_model.h"
#include "model/model_fingerprint.h"
#include "net/shared_server.h"
#include "runtime/audit/idle_audit.h"
#include "runtime/embedding/embeddings.h"
#include "runtime/engine/engine_state.h"
#include "runtime/scoring/score_pass.h"
#include "templates/reply/find_reply_format.h"
#include "templates/reply/reply_format.h"
#include "weights/model_file.h"

namespace ibid {
namespace {

// A petabyte, so that sums of budgets cannot overflow.
constexpr uint64_t kMaxBudgetBytes = 1'000'000'000'000'000;
// An hour, so that its nanoseconds cannot overflow.
constexpr double kMaxLatencyTargetMs = 3'600'000;

Status out_of_range(const std::string& name, const std::string& value, const std::string& range) {
  return {ErrorCode::kInvalidArgument, name + ": " + value + ", allowed: " + range};
}

Status check_budget(const char* name, uint64_t bytes) {
  if (bytes <= kMaxBudgetBytes) return {};
  return out_of_range(name, std::to_string(bytes), "0 to " + std::to_string(kMaxBudgetBytes));
}

Status check_pooling(std::optional<Pooling> pooling) {
  if (!pooling || *pooling <= Pooling::kLast) return {};
  return out_of_range("pooling", std::to_string(static_cast<int>(*pooling)), "a value of Pooling");
}

Status check_share(double share) {
  if (share >= 0 && share <= 1) return {};  // false for NaN
  return out_of_range("audit_share", std::to_string(share), "0 to 1");
}

Status check_scheduling(const SchedulerOptions& options) {
  const double ms = options.latency_target_ms;
  if (ms > 0 && ms <= kMaxLatencyTargetMs) return {};  // false for NaN
  std::ostringstream value;                            // to_string() would write 1e-9 as 0.000000
  value << ms;
  return out_of_range("latency_target_ms", value.str(), "above 0, to 3600000");
}

Result<std::unique_ptr<KvTier>> open_file_tier(const EngineParts& parts, KvPagePool& pool) {
  CHECK(parts.fingerprint.has_value()) << "a cache directory needs a fingerprint";
  FileTierOptions options;
  options.directory = parts.cache_directory;
  options.fingerprint = *parts.fingerprint;
  options.writer = own_writer_id();
  options.budget_bytes = parts.cache_directory_bytes;
  options.eager_bytes_per_s = parts.cache_write_bytes_per_s;
  TRY_ASSIGN(std::unique_ptr<FileTier> tier, FileTier::open(std::move(options), pool, *parts.files, *parts.clock));
  return std::unique_ptr<KvTier>(std::move(tier));
}

std::unique_ptr<KvTier> make_server_tier(const EngineParts& parts, KvPagePool& pool) {
  CHECK(parts.fingerprint.has_value()) << "a shared server needs a fingerprint";
  RecordTierOptions options;
  options.fingerprint = *parts.fingerprint;
  options.writer = own_writer_id();
  options.eager_bytes_per_s = parts.shared_server_bytes_per_s;
  auto store = std::make_shared<RespStore>(parts.shared_server, most_record_bytes(pool.layout()));
  return std::make_unique<RecordTier>(std::move(options), std::move(store), pool, *parts.clock);
}

// Time of two operations for each byte of the weights, at a rate above that of any processor.
double least_row_ns(size_t weights_bytes, int n_threads) {
  constexpr double kOperationsPerNs = 1000;  // of one thread
  return 2 * static_cast<double>(weights_bytes) / (kOperationsPerNs * ThreadTeam::size_of(n_threads));
}

// The least budget of the KV cache: one page, and the recurrent states of one sequence (KvLayout::work_bytes()).
size_t least_kv_budget_bytes(size_t page_bytes, size_t state_bytes) {
  return page_bytes + KvLayout::kStatesAtWork * state_bytes;
}

Status check_kv_budget(size_t bytes, size_t page_bytes, size_t state_bytes, const char* or_what) {
  const size_t least = least_kv_budget_bytes(page_bytes, state_bytes);
  if (bytes >= least) return {};
  const std::string what =
      state_bytes == 0 ? " (a page of this model)" : " (a page and three recurrent states of this model)";
  return out_of_range("kv_budget_bytes", std::to_string(bytes), std::to_string(least) + what + " and more" + or_what);
}

}  // namespace

size_t default_kv_budget_bytes(size_t page_bytes, size_t state_bytes, size_t max_seq_len, size_t available_bytes) {
  constexpr size_t kLeastBytes = 256'000'000;
  const size_t two_contexts = 2 * KvLayout::pages_for(max_seq_len) * page_bytes + 16 * state_bytes;
  // At least the minimum, even if that is more than half of the available memory: a smaller budget could not hold one
  // page and the states of one sequence.
  return std::max(least_kv_budget_bytes(page_bytes, state_bytes),
                  std::min(std::max(two_contexts, kLeastBytes), available_bytes / 2));
}

namespace {

Result<std::shared_ptr<Engine>> load_or_throw(const std::string& path, const EngineOptions& options) {
  ModelOptions model_options;
  model_options.numerics = options.numerics;
  model_options.kv_dtype = options.kv_dtype;
  model_options.n_threads = options.n_threads;
  model_options.max_seq_len = options.max_seq_len;
  model_options.max_chunk = options.max_chunk;
  TRY(check_model_options(model_options));
  TRY(check_pooling(options.pooling));
  TRY(check_scheduling(options.scheduling));
  TRY(check_budget("kv_budget_bytes", options.kv_budget_bytes));
  TRY(check_budget("cache_directory_bytes", options.cache_directory_bytes));
  TRY(check_budget("cache_write_bytes_per_s", options.cache_write_bytes_per_s));
  TRY(check_budget("cache_server_write_bytes_per_s", options.cache_server_write_bytes_per_s));
  EngineParts parts;
  if (!options.cache_server.empty()) {
    TRY_ASSIGN(parts.shared_server, net::SharedServer::open(options.cache_server, options.cache_key_file));
  }
  TRY(check_share(options.audit_share));
  TRY_ASSIGN(std::unique_ptr<ModelFile> opened, open_model_file(path));
  const std::shared_ptr<const ModelFile> file = std::move(opened);
  const bool wants_fingerprint =
      options.fingerprint || !options.cache_directory.empty() || parts.shared_server != nullptr;
  std::shared_ptr<LaterDigest> digest = wants_fingerprint ? start_digest(file) : nullptr;
  parts.name = path;
  parts.scheduling = options.scheduling;
  parts.kv_budget_bytes = options.kv_budget_bytes;
  TRY_ASSIGN(ModelConfig config, read_config(*file));
  parts.pooling = options.pooling ? options.pooling : config.pooling;
  parts.is_for_embeddings = config.pooling.has_value();
  TRY_ASSIGN(const MemoryPlan plan, plan_memory(*file, config, model_options));
  if (parts.kv_budget_bytes == 0) {
    const size_t available = available_memory_bytes();
    parts.kv_budget_bytes = default_kv_budget_bytes(plan.kv_page_bytes, plan.state_bytes, plan.max_seq_len,
                                                    saturating_sub(available, plan.fixed_bytes()));
  } else {
    TRY(check_kv_budget(parts.kv_budget_bytes, plan.kv_page_bytes, plan.state_bytes, ", or 0"));
  }
  const std::vector<RopeRule> ropes = config.ropes;
  TRY_ASSIGN(LoadedModel loaded, load_model(*file, std::move(config), model_options, plan, parts.kv_budget_bytes));
  parts.model = std::move(loaded.model);
  parts.tokenizer = std::move(loaded.tokenizer);
  parts.chat_template = std::move(loaded.chat_template);
  parts.warnings = std::move(loaded.warnings);
  if (wants_fingerprint) {
    const FingerprintSettings settings{options.numerics, ropes, parts.model->max_seq_len(), parts.model->kv_layout()};
    TRY_ASSIGN(parts.fingerprint, fingerprint_model(*file, settings, std::move(digest)));
  }
  parts.cache_directory = options.cache_directory;
  parts.cache_directory_bytes = options.cache_directory_bytes;
  parts.cache_write_bytes_per_s = options.cache_write_bytes_per_s;
  parts.shared_server_bytes_per_s = options.cache_server_write_bytes_per_s;
  parts.least_row_ns = least_row_ns(plan.weights_bytes, options.n_threads);
  parts.audit.share = options.audit_share;
  return make_engine(std::move(parts));
}

// Calls a body that starts threads. Returns kOutOfMemory if it throws std::bad_alloc, and the system's error if a
// thread cannot be started.
template <typename Body>
auto guarded_threads(Body&& body) -> decltype(body()) try {
  return guarded(std::forward<Body>(body));
} catch (const std::system_error& error) {
  return no_thread("a thread", error.code());
}

Result<std::shared_ptr<Engine>> make_engine_or_throw(EngineParts parts) {
  CHECK(parts.model && parts.tokenizer);
  TRY(check_scheduling(parts.scheduling));
  TRY(check_budget("kv_budget_bytes", parts.kv_budget_bytes));
  TRY(check_budget("cache_directory_bytes", parts.cache_directory_bytes));
  if (parts.model->max_chunk() == 0 || parts.model->max_seq_len() == 0) {
    return {ErrorCode::kInvalidArgument, parts.name + ": a pass of " + std::to_string(parts.model->max_chunk()) +
                                             " rows and a context of " + std::to_string(parts.model->max_seq_len()) +
                                             " positions, allowed: 1 and more"};
  }
  const KvLayout& layout = parts.model->kv_layout();
  TRY(check_kv_budget(parts.kv_budget_bytes, layout.page_bytes(), layout.state_bytes(), ""));
  if (parts.tokenizer->vocab_size() > parts.model->vocab_size()) {
    return {ErrorCode::kMismatch, parts.name + ": the tokenizer has " + std::to_string(parts.tokenizer->vocab_size()) +
                                      " tokens, the model only " + std::to_string(parts.model->vocab_size())};
  }
  if (parts.clock == nullptr) parts.clock = &system_clock();
  TRY_ASSIGN(std::unique_ptr<Scheduler> scheduler, Scheduler::create(*parts.model, *parts.clock, parts.scheduling));
  return std::make_shared<Engine>(std::make_unique<EngineState>(std::move(parts), std::move(scheduler)));
}

}  // namespace

Result<std::shared_ptr<Engine>> Engine::load(const std::string& path, const EngineOptions& options) {
  return guarded_threads([&] { return load_or_throw(path, options); });
}

Result<std::shared_ptr<Engine>> make_engine(EngineParts parts) {
  return guarded_threads([&] { return make_engine_or_throw(std::move(parts)); });
}

EngineState::EngineState(EngineParts parts, std::unique_ptr<Scheduler> scheduler)
    : parts_(std::move(parts)),
      // Unit in which other prompts can use a prefill: whole pages, or with recurrent states any position.
      pending_(parts_.model->kv_layout().n_states() > 0 ? 1 : kPagePositions),
      constraints_(*parts_.tokenizer),
      scheduler_(std::move(scheduler)) {
  pool_ = std::make_unique<KvPagePool>(parts_.model->kv_layout(), parts_.kv_budget_bytes);
  store_ = std::make_unique<LruKvCacheStore>(*pool_);
  if (const size_t state_bytes = pool_->layout().state_bytes(); state_bytes > 0) {
    state_share_ = ibid::state_share(state_bytes, max_seq_len(), parts_.kv_budget_bytes);
  }
  if (parts_.files == nullptr) parts_.files = &system_file_ops();
  open_tier();
  TierRecords* const records = parts_.audit.share > 0 && tier_ != nullptr ? tier_->records() : nullptr;
  if (records != nullptr) audit_ = std::make_unique<IdleAudit>(*this, *records, std::move(parts_.audit));
}

void EngineState::open_tier() {
  std::unique_ptr<KvTier> directory, server;
  if (parts_.open_tier || !parts_.cache_directory.empty()) {
    Result<std::unique_ptr<KvTier>> tier = parts_.open_tier ? parts_.open_tier(*pool_) : open_file_tier(parts_, *pool_);
    tier_status_ = tier.status();
    if (tier.ok()) directory = *std::move(tier);
  }
  if (parts_.shared_server != nullptr) server = make_server_tier(parts_, *pool_);
  has_directory_ = directory != nullptr;
  if (directory != nullptr) tiers_.push_back({"directory", directory.get()});
  if (server != nullptr) tiers_.push_back({"server", server.get()});
  if (directory != nullptr && server != nullptr) {
    tier_ = std::make_unique<TwoTiers>(std::move(directory), std::move(server), *parts_.clock);
  } else {
    tier_ = directory != nullptr ? std::move(directory) : std::move(server);
  }
}

double EngineState::prefill_row_ns() const {
  const double measured_ns = scheduler_->prefill_row_ns();
  return measured_ns > 0 ? measured_ns : parts_.least_row_ns;
}

EngineState::~EngineState() {
  if (!check_process().ok()) {
    // A child of fork() lacks the threads, and locks may stay held forever, so the objects that need them are leaked.
    (void)audit_.release();
    (void)scheduler_.release();
    (void)tier_.release();
    (void)store_.release();
    (void)pool_.release();
    (void)parts_.model.release();
    return;
  }
  audit_.reset();
  if (tier_ != nullptr) (void)tier_->flush(KvTier::kEndingNs);
}

const ReplyFormat& EngineState::reply_format() const {
  std::call_once(found_format_, [this] {
    if (parts_.chat_template) reply_format_ = find_reply_format(*parts_.chat_template);
    marker_tokens_.clear();
    for (TokenId id = 0; id < static_cast<TokenId>(tokenizer().vocab_size()); ++id) {
      if (tokenizer().is_special(id) && is_marker(reply_format_, tokenizer().token_bytes(id))) {
        marker_tokens_.push_back(id);
      }
    }
  });
  return reply_format_;
}

TokenSpan EngineState::marker_tokens() const {
  (void)reply_format();
  return marker_tokens_;
}

Status EngineState::check_answers() const {
  if (!parts_.is_for_embeddings) return {};
  return {ErrorCode::kUnsupported, name() + " makes embeddings only, no answers; use a chat model"};
}

const ChatTemplate* EngineState::chat_template() const {
  return parts_.chat_template ? &*parts_.chat_template : nullptr;
}

// --- the public class

Engine::Engine(std::unique_ptr<EngineState> state) : state_(std::move(state)) {}
Engine::~Engine() = default;

const std::string& Engine::name() const { return state_->name(); }
size_t Engine::max_seq_len() const { return state_->max_seq_len(); }
const std::vector<std::string>& Engine::warnings() const { return state_->warnings(); }
bool Engine::has_chat_template() const { return state_->chat_template() != nullptr; }

size_t Engine::vocab_size() const { return state_->tokenizer().vocab_size(); }

Result<Tokens> Engine::encode(std::string_view text) const {
  return guarded([&]() -> Result<Tokens> { return state_->tokenizer().encode(text, TextOrigin::kInput); });
}

std::string_view Engine::token_bytes(TokenId id) const { return state_->tokenizer().token_bytes(id); }

Result<std::shared_ptr<const TokenConstraint>> Engine::json_schema_constraint(std::string_view schema) const {
  return guarded([&] { return state_->constraints().make(ConstraintKind::kJsonSchema, schema); });
}

Result<std::shared_ptr<const TokenConstraint>> Engine::json_object_constraint() const {
  return guarded([&] { return state_->constraints().make(ConstraintKind::kJsonObject, ""); });
}

Result<std::shared_ptr<const TokenConstraint>> Engine::gbnf_constraint(std::string_view grammar) const {
  return guarded([&] { return state_->constraints().make(ConstraintKind::kGbnf, grammar); });
}

Result<std::shared_ptr<const TokenConstraint>> Engine::regex_constraint(std::string_view pattern) const {
  return guarded([&] { return state_->constraints().make(ConstraintKind::kRegex, pattern); });
}

Result<std::shared_ptr<const TokenConstraint>> Engine::choice_constraint(
    const std::vector<std::string>& choices) const {
  return guarded([&]() -> Result<std::shared_ptr<const TokenConstraint>> {
    std::string key = "choices";
    for (const std::string& choice : choices) key += std::to_string(choice.size()) + ':' + choice;
    return state_->constraints().make(key, [&](CompileBudget&) { return compile_choices(choices); });
  });
}

size_t Engine::embedding_dim() const { return state_->pooling() ? state_->model().dim() : 0; }

Result<std::vector<std::vector<float>>> Engine::embed(const std::vector<std::string>& texts, size_t n_dims,
                                                      std::stop_token stop) const {
  return guarded([&]() -> Result<std::vector<std::vector<float>>> {
    std::vector<Tokens> ids;
    for (const std::string& text : texts) ids.push_back(ids_to_embed(state_->tokenizer(), text));
    return ibid::embed(*state_, std::move(ids), {.n_dims = n_dims, .stop = std::move(stop)});
  });
}

Result<Scored> Engine::score(TokenSpan ids, const ScoreOptions& options) const {
  return guarded([&] { return ibid::score(*state_, Tokens(ids.begin(), ids.end()), options); });
}

Status Engine::cache_directory_status() const { return state_->tier_status(); }
bool Engine::has_cache_directory() const { return !state_->cache_directory().empty(); }

Status Engine::flush_cache_directory(std::chrono::nanoseconds limit) {
  KvTier* tier = state_->tier();
  return guarded([&] { return tier == nullptr ? Status() : tier->flush(limit.count()); });
}

Status Engine::forget_namespace(std::string_view cache_namespace) {
  return guarded([&] {
    state_->store().clear(std::string(cache_namespace));
    KvTier* tier = state_->tier();
    return tier == nullptr ? Status() : tier->clear(cache_namespace);
  });
}

SchedulerStats Engine::scheduler_stats() const { return state_->scheduler().stats(); }

}  // namespace ibid
