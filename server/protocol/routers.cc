// The endpoints by which routers learn the load and the models of the servers behind them, in the forms of vLLM (/load)
// and SGLang (/v1/loads, /model_info, /server_info).
#include "server/protocol/handlers.h"

namespace ibid::serve {

namespace {

double share_of(size_t part, size_t whole) {
  return whole == 0 ? 0 : static_cast<double>(part) / static_cast<double>(whole);
}

// The load in SGLang's names. A server is one rank.
Json load_json(const BackendLoad& load) {
  return {{"num_running_reqs", load.n_running},
          {"num_waiting_reqs", load.n_waiting},
          {"num_total_reqs", load.n_running + load.n_waiting},
          {"num_used_tokens", load.n_used_tokens},
          {"max_total_num_tokens", load.n_tokens},
          {"token_usage", share_of(load.n_used_tokens, load.n_tokens)}};
}

// The first model, which answers requests that name none.
ModelCard first_model(const Site& site) {
  const std::vector<ModelCard> cards = site.backend->models();
  return cards.empty() ? ModelCard() : cards.front();
}

Json model_json(const Site& site) {
  const ModelCard card = first_model(site);
  return {{"model_path", card.path},           {"tokenizer_path", card.path},
          {"served_model_name", card.name},    {"is_generation", card.answers},
          {"max_model_len", card.max_seq_len}, {"model_type", site.backend->header(card.name).family}};
}

}  // namespace

void get_load(const Site& site, const http::ExchangePtr& exchange) {
  const BackendLoad load = site.backend->load();
  Json json = load_json(load);
  json["server_load"] = load.n_running + load.n_waiting;
  respond_json(*exchange, json);
}

void get_loads(const Site& site, const http::ExchangePtr& exchange) {
  const BackendLoad load = site.backend->load();
  Json rank = load_json(load);
  rank["dp_rank"] = 0;
  rank["max_running_requests"] = site.n_parallel;
  respond_json(*exchange, {{"timestamp", iso_time(site.clock.unix_ns()) + "Z"},
                           {"version", site.version},
                           {"dp_rank_count", 1},
                           {"loads", Json::array({std::move(rank)})},
                           {"aggregate",
                            {{"total_running_reqs", load.n_running},
                             {"total_waiting_reqs", load.n_waiting},
                             {"total_reqs", load.n_running + load.n_waiting},
                             {"avg_token_usage", share_of(load.n_used_tokens, load.n_tokens)}}}});
}

void get_model_info(const Site& site, const http::ExchangePtr& exchange) { respond_json(*exchange, model_json(site)); }

void get_server_info(const Site& site, const http::ExchangePtr& exchange) {
  Json json = model_json(site);
  json.update({{"version", site.version},
               {"tp_size", 1},
               {"dp_size", 1},
               {"max_running_requests", site.n_parallel},
               {"max_total_num_tokens", site.backend->load().n_tokens}});
  respond_json(*exchange, json);
}

}  // namespace ibid::serve
