#include "ibid/engine.h"

#include <new>
#include <string>
#include <utility>

#include "api/inside.h"
#include "base/result.h"
#include "cache/store/lru_kv_cache_store.h"
#include "cache/tier/kv_tier.h"
#include "runtime/embedding/embeddings.h"
#include "runtime/out_of_heap.h"

namespace ibid::api {

Engine::Engine(std::unique_ptr<Parts> parts) : parts_(std::move(parts)) {}
Engine::~Engine() = default;

Result<std::shared_ptr<Engine>> Engine::load(const std::string& path, const EngineOptions& options) try {
  TRY_ASSIGN(std::shared_ptr<ibid::Engine> engine, ibid::Engine::load(path, options));
  return Inside::handle(std::move(engine));
} catch (const std::bad_alloc&) {
  return out_of_heap();
}

const std::string& Engine::name() const { return parts_->engine->name(); }
size_t Engine::max_seq_len() const { return parts_->engine->max_seq_len(); }
bool Engine::has_chat_template() const { return parts_->engine->chat_template() != nullptr; }

size_t Engine::vocab_size() const { return parts_->engine->tokenizer().vocab_size(); }

Result<Tokens> Engine::encode(std::string_view text) const try {
  return parts_->engine->tokenizer().encode(text, TextOrigin::kInput);
} catch (const std::bad_alloc&) {
  return out_of_heap();
}

std::string_view Engine::token_bytes(TokenId id) const { return parts_->engine->tokenizer().token_bytes(id); }

Result<std::shared_ptr<const TokenConstraint>> Engine::json_schema_constraint(std::string_view schema) const try {
  return parts_->engine->constraints().make(ConstraintKind::kJsonSchema, schema);
} catch (const std::bad_alloc&) {
  return out_of_heap();
}

Result<std::shared_ptr<const TokenConstraint>> Engine::json_object_constraint() const try {
  return parts_->engine->constraints().make(ConstraintKind::kJsonObject, "");
} catch (const std::bad_alloc&) {
  return out_of_heap();
}

Result<std::shared_ptr<const TokenConstraint>> Engine::gbnf_constraint(std::string_view grammar) const try {
  return parts_->engine->constraints().make(ConstraintKind::kGbnf, grammar);
} catch (const std::bad_alloc&) {
  return out_of_heap();
}

Result<std::shared_ptr<const TokenConstraint>> Engine::regex_constraint(std::string_view pattern) const try {
  return parts_->engine->constraints().make(ConstraintKind::kRegex, pattern);
} catch (const std::bad_alloc&) {
  return out_of_heap();
}

Result<std::shared_ptr<const TokenConstraint>> Engine::choice_constraint(const std::vector<std::string>& choices) const
    try {
  std::string key = "choices";
  for (const std::string& choice : choices) key += std::to_string(choice.size()) + ':' + choice;
  return parts_->engine->constraints().make(key, [&](CompileBudget&) { return compile_choices(choices); });
} catch (const std::bad_alloc&) {
  return out_of_heap();
}

size_t Engine::embedding_dim() const { return parts_->engine->pooling() ? parts_->engine->model().dim() : 0; }

Result<std::vector<std::vector<float>>> Engine::embed(const std::vector<std::string>& texts, size_t n_dims,
                                                      std::stop_token stop) const try {
  std::vector<Tokens> ids;
  for (const std::string& text : texts) ids.push_back(ids_to_embed(parts_->engine->tokenizer(), text));
  return ibid::embed(parts_->engine, std::move(ids), {.n_dims = n_dims, .stop = std::move(stop)});
} catch (const std::bad_alloc&) {
  return out_of_heap();
}

Status Engine::cache_directory_status() const { return parts_->engine->tier_status(); }
bool Engine::has_cache_directory() const { return parts_->engine->tier() != nullptr; }

Status Engine::flush_cache_directory(std::chrono::nanoseconds limit) try {
  KvTier* tier = parts_->engine->tier();
  return tier == nullptr ? Status() : tier->flush(limit.count());
} catch (const std::bad_alloc&) {
  return out_of_heap();
}

Status Engine::forget_namespace(std::string_view cache_namespace) try {
  parts_->engine->store().clear(std::string(cache_namespace));
  KvTier* tier = parts_->engine->tier();
  return tier == nullptr ? Status() : tier->clear(cache_namespace);
} catch (const std::bad_alloc&) {
  return out_of_heap();
}

SchedulerStats Engine::scheduler_stats() const { return parts_->engine->scheduler().stats(); }

}  // namespace ibid::api
