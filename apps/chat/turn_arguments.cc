#include "apps/chat/turn_arguments.h"

#include <CLI/CLI.hpp>

namespace ibid {

void TurnArguments::add(CLI::App& command) {
  SamplerOptions& sampler = options.sampler;
  command.add_option("--system", system, "the system message");
  command.add_option("--temperature", sampler.temperature, "0 always takes the likeliest token")->capture_default_str();
  command.add_option("--top-k", sampler.top_k, "keep the K likeliest tokens (0: all)")->capture_default_str();
  command.add_option("--top-p", sampler.top_p, "keep the fewest tokens that hold this share")->capture_default_str();
  command.add_option("--min-p", sampler.min_p, "drop tokens below this share of the likeliest")->capture_default_str();
  seed_option = command.add_option("--seed", seed, "gives the same answer again");
  command.add_option("--max-tokens", options.max_tokens, "length limit of an answer (0: the context)")
      ->capture_default_str();
  command.add_option("--speculate", speculate, "verify guesses from the conversation: the same answer, sooner")
      ->check(CLI::IsMember({"on", "off"}))
      ->capture_default_str();
  command.add_option("--stop", options.stop_strings, "end an answer before this text (may be repeated)")
      ->allow_extra_args(false);
}

TurnOptions TurnArguments::turn_options() const {
  TurnOptions result = options;
  result.speculate = speculate == "on";
  if (seed_option->count() > 0) result.sampler.seed = seed;
  return result;
}

Json turn_as_json(const Turn& turn) {
  const Usage& u = turn.usage;
  const Timings& t = turn.timings;
  Json json = {{"text", turn.text}, {"finish_reason", std::string(finish_reason_name(turn.finish_reason))}};
  if (!turn.stop_string.empty()) json["stop_string"] = turn.stop_string;
  json["seed"] = turn.seed;
  json["usage"] = {{"n_prompt", u.n_prompt},
                   {"n_cached", u.n_cached},
                   {"n_prefilled", u.n_prefilled},
                   {"n_decoded", u.n_decoded},
                   {"n_drafted", u.n_drafted},
                   {"n_accepted", u.n_accepted}};
  json["timings"] = {{"render_ms", t.render_ms},   {"tokenize_ms", t.tokenize_ms}, {"match_ms", t.match_ms},
                     {"prefill_ms", t.prefill_ms}, {"decode_ms", t.decode_ms},     {"sample_ms", t.sample_ms},
                     {"ttft_ms", t.ttft_ms},       {"total_ms", t.total_ms},       {"prefill_tps", t.prefill_tps},
                     {"decode_tps", t.decode_tps}};
  if (turn.lost_prefix) json["lost_prefix"] = turn.lost_prefix->to_string();
  return json;
}

}  // namespace ibid
