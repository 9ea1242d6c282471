#include "server/metrics.h"

#include <unistd.h>

#include <algorithm>
#include <fstream>

#include "base/text.h"
#include "cache/store/lru_kv_cache_store.h"
#include "cache/tier/kv_tier.h"
#include "net/shared_server.h"
#include "runtime/audit/idle_audit.h"
#include "server/events/kv_event_publisher.h"
#include "server/request_log.h"
#include "server/service/model_host.h"
#include "server/service/service.h"

namespace ibid::serve {

namespace {

// Escapes backslash, quote and newline.
std::string escaped_label(std::string_view text) {
  std::string escaped;
  for (const char c : text) {
    if (c == '\\' || c == '"') escaped += '\\';
    escaped += c == '\n' ? "\\n" : std::string(1, c);
  }
  return escaped;
}

}  // namespace

void Histogram::add(double seconds) {
  if (!(seconds >= 0)) return;
  for (size_t i = 0; i < kBounds.size(); ++i) {
    if (seconds > kBounds[i]) continue;
    ++buckets_[i];
    break;
  }
  ++n_;
  sum_us_ += static_cast<uint64_t>(seconds * 1e6);
}

Histogram::Sample Histogram::sample() const {
  Sample sample;
  uint64_t n_below = 0;
  for (size_t i = 0; i < kBounds.size(); ++i) sample.at_most[i] = n_below += buckets_[i];
  // Another thread may have added a value to buckets_ and not yet to n_, but n must not be less than any bucket.
  sample.n = std::max<uint64_t>(n_, n_below);
  sample.sum = static_cast<double>(sum_us_) / 1e6;
  return sample;
}

void MetricsText::begin(std::string_view name, std::string_view help, std::string_view type) {
  if (last_name_ == name) return;
  last_name_ = name;
  text_ += "# HELP " + last_name_ + " " + std::string(help) + "\n# TYPE " + last_name_ + " " + std::string(type) + "\n";
}

void MetricsText::value(std::string_view name, double value, const Labels& labels) {
  text_ += name;
  for (size_t i = 0; i < labels.size(); ++i) {
    text_ += i == 0 ? "{" : ",";
    text_ += std::string(labels[i].first) + "=\"" + escaped_label(labels[i].second) + "\"";
  }
  text_ += (labels.empty() ? " " : "} ") + number_text(value) + "\n";
}

void MetricsText::counter(std::string_view name, std::string_view help, double number, const Labels& labels) {
  begin(name, help, "counter");
  value(name, number, labels);
}

void MetricsText::gauge(std::string_view name, std::string_view help, double number, const Labels& labels) {
  begin(name, help, "gauge");
  value(name, number, labels);
}

void MetricsText::histogram(std::string_view name, std::string_view help, const Histogram::Sample& sample) {
  begin(name, help, "histogram");
  const std::string bucket = std::string(name) + "_bucket";
  for (size_t i = 0; i < Histogram::kBounds.size(); ++i) {
    value(bucket, static_cast<double>(sample.at_most[i]), {{"le", number_text(Histogram::kBounds[i])}});
  }
  value(bucket, static_cast<double>(sample.n), {{"le", "+Inf"}});
  value(std::string(name) + "_sum", sample.sum, {});
  value(std::string(name) + "_count", static_cast<double>(sample.n), {});
}

namespace {

double as_number(uint64_t value) { return static_cast<double>(value); }

void write_connections(MetricsText& text, const http::ServerStats& stats) {
  text.counter("ibid_http_connections_total", "Accepted connections.", as_number(stats.n_connections));
  text.gauge("ibid_http_connections", "Open connections.", as_number(stats.n_open));
  text.gauge("ibid_http_exchanges", "Requests being processed.", as_number(stats.n_exchanges));
  text.counter("ibid_http_refused_total", "Requests rejected before routing: limits, Host, Origin, key, path.",
               as_number(stats.n_refused));
  text.counter("ibid_http_slow_clients_total", "Clients disconnected for reading too slowly.",
               as_number(stats.n_slow_clients));
}

void write_answers(MetricsText& text, const ServiceStats& stats) {
  text.gauge("ibid_num_requests_running", "Answers being computed.", as_number(stats.n_running));
  text.gauge("ibid_num_requests_waiting", "Requests waiting in the queue.", as_number(stats.n_waiting));
  const char* help = "Requests for answers, by outcome.";
  text.counter("ibid_answers_total", help, as_number(stats.n_answers), {{"ended", "whole"}});
  text.counter("ibid_answers_total", help, as_number(stats.n_cancelled), {{"ended", "cancelled"}});
  text.counter("ibid_answers_total", help, as_number(stats.n_bad), {{"ended", "bad_request"}});
  text.counter("ibid_answers_total", help, as_number(stats.n_failed), {{"ended", "failed"}});
  text.counter("ibid_answers_total", help, as_number(stats.n_refused), {{"ended", "refused"}});
  text.counter("ibid_answers_retried_total", "Answers restarted after running out of KV memory.",
               as_number(stats.n_retried));
  text.counter("ibid_prompt_tokens_total", "Prompt tokens, cached included.", as_number(stats.n_prompt));
  text.counter("ibid_reused_tokens_total", "Prompt tokens reused from the cache.", as_number(stats.n_cached));
  text.counter("ibid_prefill_tokens_total", "Prompt tokens prefilled.", as_number(stats.n_prefilled));
  text.counter("ibid_generation_tokens_total", "Tokens generated.", as_number(stats.n_decoded));
  text.counter("ibid_prefix_cache_queries_total", "The same as ibid_prompt_tokens_total.", as_number(stats.n_prompt));
  text.counter("ibid_prefix_cache_hits_total", "The same as ibid_reused_tokens_total.", as_number(stats.n_cached));
  // The same figures under the names that dashboards for other servers use.
  text.gauge("ibid_requests_processing", "The same as ibid_num_requests_running.", as_number(stats.n_running));
  text.gauge("ibid_requests_deferred", "The same as ibid_num_requests_waiting.", as_number(stats.n_waiting));
  text.counter("ibid_tokens_predicted_total", "The same as ibid_generation_tokens_total.", as_number(stats.n_decoded));
  text.gauge("ibid_kv_store_sessions", "The same as ibid_conversations.", as_number(stats.conversations.n_known));
  text.gauge("ibid_conversations", "Conversations in memory.", as_number(stats.conversations.n_known));
  text.gauge("ibid_conversation_bytes", "Memory for the texts and tokens of conversations.",
             as_number(stats.conversations.n_bytes));
  const HistoryStats& kept = stats.conversations.kept;
  text.gauge("ibid_conversation_files", "Conversations on disk.", as_number(kept.n_kept));
  text.gauge("ibid_conversation_file_bytes", "Size of the conversations on disk.", as_number(kept.n_bytes));
  text.gauge("ibid_conversation_files_waiting", "To be written.", as_number(stats.conversations.n_waiting));
  text.counter("ibid_conversation_files_restored_total", "Conversations restored from disk.",
               as_number(stats.conversations.n_restored));
  text.counter("ibid_conversation_files_refused_total", "Invalid conversations rejected.", as_number(kept.n_refused));
  text.counter("ibid_conversation_files_failed_total", "Conversations that could not be written to disk.",
               as_number(kept.n_failed));
  const char* found = "Requests, by how much of their history was known.";
  text.counter("ibid_histories_total", found, as_number(stats.conversations.n_continued), {{"found", "continued"}});
  text.counter("ibid_histories_total", found, as_number(stats.conversations.n_forked), {{"found", "forked"}});
  text.counter("ibid_histories_total", found, as_number(stats.conversations.n_unknown), {{"found", "unknown"}});
}

// Writes one metric for all models, because the values of a name must be consecutive.
template <typename Write>
void for_each_loaded(const std::vector<HostedModel>& models, const Write& write) {
  for (const HostedModel& model : models) {
    if (model.engine != nullptr) write(*model.engine, MetricsText::Labels{{"model", model.name}});
  }
}

void write_models(MetricsText& text, const std::vector<HostedModel>& models) {
  for (const HostedModel& model : models) {
    text.gauge("ibid_model_loaded", "Whether the model is loaded.", model.is_loaded ? 1 : 0, {{"model", model.name}});
  }
  const auto gauge = [&](const char* name, const char* help, auto value_of) {
    for_each_loaded(models, [&](Engine& engine, const MetricsText::Labels& labels) {
      text.gauge(name, help, as_number(value_of(engine.state())), labels);
    });
  };
  const auto counter = [&](const char* name, const char* help, auto value_of) {
    for_each_loaded(models, [&](Engine& engine, const MetricsText::Labels& labels) {
      text.counter(name, help, as_number(value_of(engine.state())), labels);
    });
  };
  for_each_loaded(models, [&](Engine& engine, const MetricsText::Labels& labels) {
    const double budget = as_number(std::max<size_t>(engine.state().pool().budget_bytes(), 1));
    text.gauge("ibid_kv_cache_usage_perc", "Fraction of the KV budget in use.",
               as_number(engine.state().pool().bytes_in_use()) / budget, labels);
  });
  gauge("ibid_kv_budget_bytes", "Memory budget for keys and values.",
        [](EngineState& engine) { return engine.pool().budget_bytes(); });
  gauge("ibid_kv_bytes", "Memory for keys and values in use.",
        [](EngineState& engine) { return engine.pool().bytes_in_use(); });
  gauge("ibid_kv_store_bytes", "Memory for keys and values in the KV store.",
        [](EngineState& engine) { return engine.store().stats().bytes; });
  counter("ibid_kv_store_lookups_total", "Lookups in the KV store.",
          [](EngineState& engine) { return engine.store().stats().lookups; });
  counter("ibid_kv_store_hits_total", "Lookups in the KV store that found a prefix.",
          [](EngineState& engine) { return engine.store().stats().hits; });
  counter("ibid_kv_store_evictions_total", "Pages evicted from the KV store.",
          [](EngineState& engine) { return engine.store().stats().evicted_pages; });
  counter("ibid_prefix_cache_lookups_total", "The same as ibid_kv_store_lookups_total.",
          [](EngineState& engine) { return engine.store().stats().lookups; });
  counter("ibid_prefix_cache_evictions_total", "The same as ibid_kv_store_evictions_total.",
          [](EngineState& engine) { return engine.store().stats().evicted_pages; });
  counter("ibid_passes_total", "Forward passes of the model.",
          [](EngineState& engine) { return engine.scheduler().stats().n_passes; });
  counter("ibid_shared_passes_total", "Forward passes that computed several answers.",
          [](EngineState& engine) { return engine.scheduler().stats().n_shared_passes; });
  counter("ibid_rows_total", "Rows computed in forward passes.",
          [](EngineState& engine) { return engine.scheduler().stats().n_rows; });
}

struct TierMetric {
  bool is_counter;
  const char *name, *help;
  double (*value)(const KvTierStats& stats);
};

constexpr TierMetric kTierMetrics[] = {
    {false, "ibid_tier_bytes", "Size of the keys and values in the directory.",
     [](const KvTierStats& stats) { return as_number(stats.bytes); }},
    {false, "ibid_tier_waiting_bytes", "To be written.",
     [](const KvTierStats& stats) { return as_number(stats.waiting_bytes); }},
    {true, "ibid_tier_hits_total", "Look-ups of prompts that found a prefix.",
     [](const KvTierStats& stats) { return as_number(stats.hits); }},
    {true, "ibid_tier_misses_total", "Look-ups of prompts that found nothing.",
     [](const KvTierStats& stats) { return as_number(stats.misses); }},
    {true, "ibid_tier_tokens_read_total", "Positions read.",
     [](const KvTierStats& stats) { return as_number(stats.tokens_read); }},
    {true, "ibid_tier_pages_written_total", "Pages written.",
     [](const KvTierStats& stats) { return as_number(stats.pages_written); }},
    {true, "ibid_tier_evictions_total", "Pages evicted from the directory.",
     [](const KvTierStats& stats) { return as_number(stats.evicted); }},
    {true, "ibid_tier_dropped_total", "Records that were given up without being written.",
     [](const KvTierStats& stats) { return as_number(stats.dropped); }},
    {true, "ibid_tier_quarantined_total", "Records that failed verification.",
     [](const KvTierStats& stats) { return as_number(stats.quarantined); }},
    {true, "ibid_tier_failures_total", "Failed reads and writes of keys and values.",
     [](const KvTierStats& stats) { return as_number(stats.failures); }},
    {true, "ibid_tier_read_bytes_total", "Bytes read from the cache server.",
     [](const KvTierStats& stats) { return as_number(stats.bytes_read); }},
    {true, "ibid_tier_written_bytes_total", "Bytes written to the cache server.",
     [](const KvTierStats& stats) { return as_number(stats.bytes_written); }},
    {true, "ibid_tier_read_seconds_total", "Time of look-ups in the cache server.",
     [](const KvTierStats& stats) { return static_cast<double>(stats.read_ns) / 1e9; }},
};

void write_tiers(MetricsText& text, const std::vector<HostedModel>& models) {
  std::vector<std::pair<MetricsText::Labels, KvTierStats>> tiers;
  const net::SharedServer* server = nullptr;  // all models use the same one
  for_each_loaded(models, [&](Engine& engine, const MetricsText::Labels& labels) {
    if (engine.state().shared_server() != nullptr) server = engine.state().shared_server();
    for (const EngineState::NamedTier& tier : engine.state().tiers()) {
      tiers.push_back({labels, tier.tier->stats()});
      tiers.back().first.emplace_back("tier", tier.name);
    }
  });
  for (const TierMetric& metric : kTierMetrics) {
    for (const auto& [labels, stats] : tiers) {
      metric.is_counter ? text.counter(metric.name, metric.help, metric.value(stats), labels)
                        : text.gauge(metric.name, metric.help, metric.value(stats), labels);
    }
  }
  if (server == nullptr) return;
  const net::CircuitBreaker& breaker = server->connections().breaker();
  text.gauge("ibid_cache_server_usable", "1 while the cache server is used, 0 while it does not answer.",
             breaker.allows_calls() ? 1 : 0);
  text.counter("ibid_cache_server_failures_total", "How often the cache server was given up for a while.",
               as_number(breaker.n_opened()));
}

void write_audits(MetricsText& text, const std::vector<HostedModel>& models) {
  std::vector<std::pair<std::string, IdleAudit::Stats>> audits;
  for_each_loaded(models, [&](Engine& engine, const MetricsText::Labels& labels) {
    if (engine.state().audit() != nullptr) audits.emplace_back(labels[0].second, engine.state().audit()->stats());
  });
  for (const auto& [model, stats] : audits) {
    const AuditCounts& counts = stats.counts;
    const std::pair<const char*, size_t> results[] = {{"right", counts.n_right},
                                                      {"wrong", counts.n_wrong},
                                                      {"unexplained", counts.n_unexplained},
                                                      {"unreadable", counts.n_unreadable + counts.n_gone},
                                                      {"skipped", counts.n_skipped + stats.n_dropped}};
    for (const auto& [result, n] : results) {
      text.counter("ibid_audit_records_total", "Records of the tier chosen for the audit, by result.", as_number(n),
                   {{"model", model}, {"result", result}});
    }
  }
  for (const auto& [model, stats] : audits) {
    for (const auto& [writer, n] : stats.counts.wrong_by_writer) {
      text.counter("ibid_audit_wrong_total", "Wrong records that the audit removed, by their writer.", as_number(n),
                   {{"model", model}, {"writer", writer_text(writer)}});
    }
  }
  for (const auto& [model, stats] : audits) {
    text.gauge("ibid_audit_waiting", "Records that wait for the audit.", as_number(stats.n_waiting),
               {{"model", model}});
  }
}

// The names of vLLM, by which routers weigh servers. Requests and tokens are those of all models.
void write_vllm_names(MetricsText& text, const ServiceStats& stats, const std::vector<HostedModel>& models) {
  const auto labels_of = [](const std::string& model) { return MetricsText::Labels{{"model_name", model}}; };
  const MetricsText::Labels labels = labels_of(models.empty() ? "" : models.front().name);
  text.gauge("vllm:num_requests_running", "Answers being computed.", as_number(stats.n_running), labels);
  text.gauge("vllm:num_requests_waiting", "Requests waiting in the queue.", as_number(stats.n_waiting), labels);
  text.counter("vllm:prefix_cache_queries_total", "Prompt tokens, cached included.", as_number(stats.n_prompt), labels);
  text.counter("vllm:prefix_cache_hits_total", "Prompt tokens reused from the cache.", as_number(stats.n_cached),
               labels);
  for (const HostedModel& model : models) {
    if (model.engine == nullptr) continue;
    EngineState& engine = model.engine->state();
    const double n_pages = as_number(std::max<size_t>(engine.pool().budget_pages(), 1));
    text.gauge("vllm:kv_cache_usage_perc", "Fraction of the KV budget that running requests hold.",
               as_number(engine.store().n_held_pages()) / n_pages, labels_of(model.name));
  }
  for (const HostedModel& model : models) {
    if (model.engine == nullptr) continue;
    MetricsText::Labels info = {{"block_size", std::to_string(kPagePositions)},
                                {"num_gpu_blocks", std::to_string(model.engine->state().pool().budget_pages())}};
    info.emplace_back("model_name", model.name);
    text.gauge("vllm:cache_config_info", "Tokens of a block, and blocks in the KV budget.", 1, info);
  }
}

void write_process(MetricsText& text) {
  uint64_t all = 0, resident = 0;
  std::ifstream("/proc/self/statm") >> all >> resident;
  text.gauge("process_resident_memory_bytes", "Resident memory of the process.",
             as_number(resident * static_cast<uint64_t>(sysconf(_SC_PAGESIZE))));
}

}  // namespace

void ServerMetrics::add(const http::ExchangeRecord& record) {
  request_seconds_.add(record.total_ms / 1000);
  const http::AnswerFigures& figures = record.figures;
  if (!figures.model.empty()) {
    queue_seconds_.add(figures.queue_ms / 1000);
    // The time counts from the arrival of the request, as clients and other servers measure it.
    if (figures.n_decoded > 0) first_token_seconds_.add((figures.queue_ms + figures.ttft_ms) / 1000);
    if (figures.itl_ms > 0) token_seconds_.add(figures.itl_ms / 1000);
  }
  const std::lock_guard lock(mutex_);
  ++n_requests_[{record.pattern, record.method, record.status}];
  n_bytes_in_ += record.n_bytes_in;
  n_bytes_out_ += record.n_bytes_out;
  n_clients_gone_ += record.client_gone ? 1 : 0;
  for (const std::string_view reason : figures.ended) ++n_ended_[reason];
  n_tokens_max_ = std::max(n_tokens_max_, figures.n_prompt + figures.n_decoded);
  prompt_seconds_ += figures.prefill_ms / 1000;
  predicted_seconds_ += figures.decode_ms / 1000;
}

void ServerMetrics::write_sequences(MetricsText& text) const {
  const std::lock_guard lock(mutex_);
  for (const auto& [reason, n] : n_ended_) {
    text.counter("ibid_sequences_completed_total", "Completed answers, by finish reason.", as_number(n),
                 {{"reason", std::string(reason)}});
  }
  text.counter("ibid_prompt_seconds_total", "Time spent in prefill.", prompt_seconds_);
  text.counter("ibid_tokens_predicted_seconds_total", "Time spent decoding.", predicted_seconds_);
  text.gauge("ibid_n_tokens_max", "Largest prompt plus completion of a request, in tokens.", as_number(n_tokens_max_));
}

// The names of llama.cpp's server, for its dashboards.
void ServerMetrics::write_llama_names(MetricsText& text, const ServiceStats& stats,
                                      const std::vector<HostedModel>& models) const {
  size_t n_passes = 0, n_sequences = 0;
  for_each_loaded(models, [&](Engine& engine, const MetricsText::Labels&) {
    const SchedulerStats passes = engine.scheduler_stats();
    n_passes += passes.n_passes;
    n_sequences += passes.n_sequences;
  });
  const auto rate = [](double n, double seconds) { return seconds > 0 ? n / seconds : 0; };
  const std::lock_guard lock(mutex_);
  const double n_read = as_number(stats.n_prefilled), n_predicted = as_number(stats.n_decoded);
  text.counter("llamacpp:prompt_tokens_total", "Prompt tokens prefilled.", n_read);
  text.counter("llamacpp:prompt_tokens_cached_total", "Prompt tokens reused from the cache.",
               as_number(stats.n_cached));
  text.counter("llamacpp:prompt_seconds_total", "Time spent in prefill.", prompt_seconds_);
  text.counter("llamacpp:tokens_predicted_total", "Tokens generated.", n_predicted);
  text.counter("llamacpp:tokens_predicted_seconds_total", "Time spent decoding.", predicted_seconds_);
  text.counter("llamacpp:n_tokens_max", "Largest prompt plus completion of a request, in tokens.",
               as_number(n_tokens_max_));
  text.counter("llamacpp:n_decode_total", "Forward passes of the loaded models.", as_number(n_passes));
  text.counter("llamacpp:spec_decode_num_drafts_total", "Passes that verified a draft.", as_number(stats.n_drafts));
  text.counter("llamacpp:spec_decode_num_draft_tokens_total", "Draft tokens that were verified.",
               as_number(stats.n_drafted));
  text.counter("llamacpp:spec_decode_num_accepted_tokens_total", "Draft tokens that were accepted.",
               as_number(stats.n_accepted));
  text.gauge("llamacpp:n_busy_slots_per_decode", "Mean number of sequences in a forward pass.",
             n_passes > 0 ? as_number(n_sequences) / as_number(n_passes) : 0);
  text.gauge("llamacpp:prompt_tokens_seconds", "Mean rate of prefill, in tokens per second.",
             rate(n_read, prompt_seconds_));
  text.gauge("llamacpp:predicted_tokens_seconds", "Mean rate of decoding, in tokens per second.",
             rate(n_predicted, predicted_seconds_));
  text.gauge("llamacpp:requests_processing", "Answers being computed.", as_number(stats.n_running));
  text.gauge("llamacpp:requests_deferred", "Requests waiting in the queue.", as_number(stats.n_waiting));
}

void ServerMetrics::write_exchanges(MetricsText& text) const {
  const std::lock_guard lock(mutex_);
  for (const auto& [key, n] : n_requests_) {
    const auto& [pattern, method, status] = key;
    text.counter("ibid_http_requests_total", "Requests by route, method and status; 0: no response was sent.",
                 as_number(n), {{"path", pattern}, {"method", method}, {"status", std::to_string(status)}});
  }
  text.counter("ibid_http_received_bytes_total", "Size of the request bodies.", as_number(n_bytes_in_));
  text.counter("ibid_http_sent_bytes_total", "Size of the responses.", as_number(n_bytes_out_));
  text.counter("ibid_http_clients_gone_total", "Clients that disconnected before the whole response was delivered.",
               as_number(n_clients_gone_));
}

std::string ServerMetrics::text(const http::ServerStats& server, const Service* service,
                                const ModelHost* models) const {
  MetricsText text;
  write_connections(text, server);
  write_exchanges(text);
  write_sequences(text);
  if (service != nullptr) {
    const ServiceStats stats = service->stats();
    write_answers(text, stats);
    const std::vector<HostedModel> all = models == nullptr ? std::vector<HostedModel>() : models->list();
    write_llama_names(text, stats, all);
    write_vllm_names(text, stats, all);
  }
  if (log_ != nullptr) {
    text.counter("ibid_log_lines_dropped_total", "Log lines dropped because the reader was too slow.",
                 as_number(log_->n_dropped()));
  }
  if (const KvEventPublisher* events = events_.load(); events != nullptr) {
    const KvEventPublisher::Stats sent = events->stats();
    text.counter("ibid_kv_event_batches_total", "Batches of KV events.", as_number(sent.n_batches));
    text.counter("ibid_kv_event_snapshots_total", "Snapshots of all blocks among them.", as_number(sent.n_snapshots));
    text.counter("ibid_kv_event_replays_total", "Requests to repeat batches.", as_number(sent.n_replays));
  }
  if (models != nullptr) {
    const std::vector<HostedModel> all = models->list();
    write_models(text, all);
    write_tiers(text, all);
    write_audits(text, all);
  }
  text.histogram("ibid_request_seconds", "Time from the last byte of a request to the last byte of its response.",
                 request_seconds_.sample());
  text.histogram("ibid_queue_seconds", "Time that requests waited in the queue.", queue_seconds_.sample());
  text.histogram("ibid_time_to_first_token_seconds", "Time to the first token, queue included.",
                 first_token_seconds_.sample());
  text.histogram("ibid_inter_token_latency_seconds", "Mean time between tokens of the answers of a request.",
                 token_seconds_.sample());
  write_process(text);
  return text.take();
}

}  // namespace ibid::serve
