#include "server/web/monitor_json.h"

#include <string>
#include <utility>

#include "base/json_limits.h"
#include "cache/store/lru_kv_cache_store.h"
#include "cache/tier/kv_tier.h"
#include "net/shared_server.h"

namespace ibid::serve {

namespace {

Json server_json(const http::ServerStats& stats) {
  return {{"connections", stats.n_connections},
          {"open", stats.n_open},
          {"requests", stats.n_requests},
          {"refused", stats.n_refused},
          {"slow_clients", stats.n_slow_clients}};
}

Json answers_json(const ServiceStats& stats) {
  return {{"done", stats.n_answers},        {"running", stats.n_running}, {"waiting", stats.n_waiting},
          {"cancelled", stats.n_cancelled}, {"bad", stats.n_bad},         {"failed", stats.n_failed},
          {"refused", stats.n_refused}};
}

Json tokens_json(const ServiceStats& stats) {
  return {{"prompt", stats.n_prompt},
          {"cached", stats.n_cached},
          {"prefilled", stats.n_prefilled},
          {"decoded", stats.n_decoded}};
}

Json conversations_json(const ServiceStats& stats) {
  return {{"known", stats.conversations.n_known},
          {"bytes", stats.conversations.n_bytes},
          {"continued", stats.conversations.n_continued},
          {"forked", stats.conversations.n_forked},
          {"unknown", stats.conversations.n_unknown}};
}

Json passes_json(const SchedulerStats& stats) {
  return {{"n", stats.n_passes},
          {"shared", stats.n_shared_passes},
          {"rows", stats.n_rows},
          {"most_sequences", stats.most_sequences}};
}

Json pool_json(const KvPagePool& pool) {
  return {{"budget_bytes", pool.budget_bytes()},
          {"bytes", pool.bytes_in_use()},
          {"peak_bytes", pool.peak_bytes()},
          {"state_bytes", pool.state_bytes_in_use()}};
}

Json store_json(const LruKvCacheStore& store, const StoreStats& stats) {
  return {{"bytes", stats.bytes},
          {"budget_bytes", store.budget_bytes()},
          {"pages", stats.pages},
          {"lookups", stats.lookups},
          {"hits", stats.hits},
          {"reused_tokens", stats.reused_tokens},
          {"inserted_pages", stats.inserted_pages},
          {"evicted_pages", stats.evicted_pages}};
}

// Returns the whole without a part. The two are read at different times, so the part may exceed the whole.
size_t rest_of(size_t whole, size_t part) { return whole > part ? whole - part : 0; }

Json namespace_json(std::string_view name, bool is_own, const StoreStats& stats) {
  return {{"name", std::string(name)}, {"is_own", is_own},   {"bytes", stats.bytes},
          {"pages", stats.pages},      {"hits", stats.hits}, {"lookups", stats.lookups}};
}

Json namespaces_json(const LruKvCacheStore& store, std::string_view own_name) {
  const StoreStats all = store.stats();
  const StoreStats own = store.stats(own_name);
  const StoreStats others{.lookups = rest_of(all.lookups, own.lookups),
                          .hits = rest_of(all.hits, own.hits),
                          .pages = rest_of(all.pages, own.pages),
                          .bytes = rest_of(all.bytes, own.bytes)};
  Json list = Json::array();
  list.push_back(namespace_json(own_name, true, own));
  // Decide by bytes, not by counters: look-ups before a namespace stores its first page belong to no namespace, so
  // counters do not prove that other namespaces exist.
  if (others.bytes > 0) list.push_back(namespace_json("", false, others));
  return list;
}

Json tier_json(const EngineState::NamedTier& tier, const net::SharedServer* server) {
  const KvTierStats stats = tier.tier->stats();
  const bool is_server = tier.name == std::string_view("server");
  return {{"name", tier.name},
          {"bytes", stats.bytes},
          {"pages", stats.pages},
          {"hits", stats.hits},
          {"misses", stats.misses},
          {"tokens_read", stats.tokens_read},
          {"pages_written", stats.pages_written},
          {"evicted", stats.evicted},
          {"waiting", stats.waiting},
          {"waiting_bytes", stats.waiting_bytes},
          {"dropped", stats.dropped},
          {"failures", stats.failures},
          {"quarantined", stats.quarantined},
          {"bytes_read", stats.bytes_read},
          {"bytes_written", stats.bytes_written},
          {"is_usable", !is_server || server == nullptr || server->connections().breaker().allows_calls()},
          // do not send the reason itself, because it may name the directory
          {"is_writing", stats.disabled_reason.empty()}};
}

Json model_json(const HostedModel& model, std::string_view own_name) {
  Json json = Json::object();
  json["name"] = model.name;
  json["loaded"] = model.engine != nullptr;
  json["file_bytes"] = model.file_bytes;
  if (model.engine == nullptr) return json;
  Engine& engine = *model.engine;
  json["max_seq_len"] = engine.max_seq_len();
  json["passes"] = passes_json(engine.state().scheduler().stats());
  json["pool"] = pool_json(engine.state().pool());
  json["store"] = store_json(engine.state().store(), engine.state().store().stats());
  json["namespaces"] = namespaces_json(engine.state().store(), own_name);
  json["tiers"] = Json::array();
  for (const EngineState::NamedTier& tier : engine.state().tiers()) {
    json["tiers"].push_back(tier_json(tier, engine.state().shared_server()));
  }
  return json;
}

}  // namespace

Json monitor_json(const MonitorSample& sample, std::string_view cache_namespace, int64_t now_ns, int64_t start_ns) {
  Json json = Json::object();
  json["time_ms"] = now_ns / 1'000'000;
  const int64_t uptime_ms = (now_ns - start_ns) / 1'000'000;
  json["uptime_s"] = static_cast<double>(uptime_ms) / 1000.0;
  json["server"] = server_json(sample.server);
  json["answers"] = answers_json(sample.answers);
  json["tokens"] = tokens_json(sample.answers);
  json["conversations"] = conversations_json(sample.answers);
  json["models"] = Json::array();
  for (const HostedModel& model : sample.models) json["models"].push_back(model_json(model, cache_namespace));
  return json;
}

void add_monitor_route(http::Router& router, std::function<MonitorSample()> take, Clock& clock) {
  const int64_t start_ns = clock.steady_ns();
  router.add("GET", "/monitor.json",
             [take = std::move(take), &clock, start_ns](const http::ExchangePtr& exchange, const http::PathParts&) {
               const Json json = monitor_json(take(), exchange->request().key_namespace, clock.steady_ns(), start_ns);
               exchange->respond({.body = json_to_string(json), .headers = {{"Cache-Control", "no-store"}}});
             });
}

}  // namespace ibid::serve
