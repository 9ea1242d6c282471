#include "apps/chat/chat_backend.h"

#include <filesystem>
#include <utility>

#include "apps/models/model_arguments.h"
#include "apps/sessions/message_text.h"
#include "apps/terminal/terminal_text.h"
#include "cache/store/lru_kv_cache_store.h"
#include "model/memory_plan.h"

namespace ibid {
namespace {

// Upper bound for the tokens that a template adds around a message.
constexpr size_t kAroundAMessage = 256;

Result<std::unique_ptr<ChatBackend>> local_backend(Result<ChatSession> session) {
  if (!session.ok()) return session.status();
  return std::unique_ptr<ChatBackend>(std::make_unique<LocalBackend>(*std::move(session)));
}

}  // namespace

Result<Turn> LocalBackend::send(std::string_view message, const TurnOptions& options, const TurnCallback& on_event) {
  return session_.send(message, options, on_event);
}

Result<Turn> LocalBackend::answer(const TurnOptions& options, const TurnCallback& on_event) {
  return session_.answer(options, on_event);
}

Result<Turn> LocalBackend::regenerate(const TurnOptions& options, const TurnCallback& on_event) {
  return session_.regenerate(options, on_event);
}

Result<Turn> LocalBackend::continue_answer(const TurnOptions& options, const TurnCallback& on_event) {
  return session_.continue_answer(options, on_event);
}

Result<std::vector<Turn>> LocalBackend::send_for_answers(std::string_view message, size_t n, const TurnOptions& options,
                                                         const AnswersCallback& on_event) {
  return session_.send_for_answers(message, n, options, on_event);
}

Result<std::unique_ptr<ChatBackend>> LocalBackend::fork() const { return local_backend(session_.fork()); }

Result<std::unique_ptr<ChatBackend>> LocalBackend::load(const std::string& path) const {
  return local_backend(ChatSession::load(session_.engine(), path));
}

bool LocalBackend::may_overflow_context(size_t n_bytes) const {
  // Each token has at least one byte, so a message has at most n_bytes tokens.
  return session_.ids().size() + n_bytes + kAroundAMessage > session_.engine()->max_seq_len();
}

std::vector<std::string> LocalBackend::describe_model() const {
  const EngineState& engine = session_.engine()->state();
  const KvLayout& layout = engine.model().kv_layout();
  std::string kept = formatted("keys and values  %s, %zu layers, %s for 64 tokens", kv_type_name(layout.dtype()),
                               layout.n_layers(), format_bytes(layout.page_bytes()).c_str());
  if (layout.n_states() > 0) kept += ", and states of " + format_bytes(layout.state_bytes());
  return {"model            " + std::filesystem::path(engine.name()).filename().string(),
          "from             " + engine.name(),
          formatted("context          %zu tokens, vocabulary %zu", engine.max_seq_len(), engine.model().vocab_size()),
          std::move(kept)};
}

std::vector<std::string> LocalBackend::describe_costs() {
  const Usage& usage = session_.usage();
  const Timings& last = session_.timings();
  Engine& engine = *session_.engine();
  return {formatted("turns            %zu, %zu of %zu tokens of the context used", n_turns(messages()),
                    session_.ids().size(), engine.max_seq_len()),
          formatted("prompt tokens    %zu, of them %zu found in the cache and %zu prefilled", usage.n_prompt,
                    usage.n_cached, usage.n_prefilled),
          formatted("generated tokens %zu, of them %zu accepted drafts (%zu drafted)", usage.n_decoded,
                    usage.n_accepted, usage.n_drafted),
          formatted("last turn        first token after %.1f ms, then %.0f tokens/s", last.ttft_ms, last.decode_tps),
          formatted("  of that        render %.2f, tokenize %.2f, match %.2f, prefill %.1f ms", last.render_ms,
                    last.tokenize_ms, last.match_ms, last.prefill_ms),
          formatted("keys and values  %s in use of %s", format_bytes(engine.state().pool().bytes_in_use()).c_str(),
                    format_bytes(engine.state().pool().budget_bytes()).c_str())};
}

}  // namespace ibid
