#include "apps/chat/turn_arguments.h"

#include <CLI/CLI.hpp>

#include <charconv>
#include <limits>
#include <utility>

namespace ibid {

namespace {

// "ID=VALUE"; VALUE may be -inf.
std::pair<TokenId, double> parse_logit_bias(const std::string& text) {
  TokenId id = 0;
  double bias = 0;
  const char* end = text.data() + text.size();
  const auto [behind_id, id_error] = std::from_chars(text.data(), end, id);
  bool valid = id_error == std::errc() && behind_id != end && *behind_id == '=';
  if (valid) {
    const char* begin = behind_id + 1;
    if (begin != end && *begin == '+') ++begin;  // from_chars knows none
    const auto [behind_bias, bias_error] = std::from_chars(begin, end, bias);
    valid = bias_error == std::errc() && behind_bias == end;
  }
  if (!valid) throw CLI::ValidationError("--logit-bias", "'" + text + "' is not ID=VALUE");
  return {id, bias};
}

// A number in decimal digits that fits into T. CLI11 itself wraps and saturates.
template <typename T>
CLI::Validator whole_number(T least) {
  const auto complaint = [least](const std::string& text) {
    T value = 0;
    const char* end = text.data() + text.size();
    const auto [behind, error] = std::from_chars(text.data(), end, value);
    if (error == std::errc() && behind == end && value >= least) return std::string();
    return "'" + text + "' is no whole number from " + std::to_string(least) + " to " +
           std::to_string(std::numeric_limits<T>::max());
  };
  return CLI::Validator(complaint, "");
}

// -1 (all there are) or a number of ids.
std::optional<size_t> window_of(int64_t n) { return n < 0 ? std::optional<size_t>() : static_cast<size_t>(n); }

Json likely_as_json(TokenId id, double logprob, const Tokenizer& tokenizer) {
  return {{"id", id}, {"token", std::string(tokenizer.token_bytes(id))}, {"logprob", logprob}};
}

}  // namespace

void TurnArguments::add(CLI::App& command) {
  command.add_option("--system", system, "the system message");
  add_cuts(command);
  add_penalties(command);
  seed_option = command.add_option("--seed", seed, "gives the same answer again")
                    ->check(whole_number<uint64_t>(0));
  command.add_option("--max-tokens", options.max_tokens, "length limit of an answer (0: the context)")
      ->check(whole_number<size_t>(0))
      ->capture_default_str();
  command.add_option("--speculate", speculate, "verify guesses from the conversation: the same answer, sooner")
      ->check(CLI::IsMember({"on", "off"}))
      ->capture_default_str();
  command.add_option("--stop", options.stop_strings, "end an answer before this text (may be repeated)")
      ->allow_extra_args(false);
  command.parse_complete_callback([this] { check_and_convert(); });
}

void TurnArguments::add_cuts(CLI::App& command) {
  SamplerOptions& s = options.sampler;
  command.add_option("--temperature,--temp", s.temperature, "0 always takes the likeliest token")
      ->capture_default_str();
  command.add_option("--top-k", s.top_k, "keep the K likeliest tokens (0: all)")
      ->check(whole_number<size_t>(0))
      ->capture_default_str();
  command.add_option("--top-p", s.top_p, "keep the fewest tokens that hold this share")->capture_default_str();
  command.add_option("--min-p", s.min_p, "drop tokens below this share of the likeliest")->capture_default_str();
  command.add_option("--typical-p,--typical", s.typical_p, "keep the most typical tokens that hold this share (1: all)")
      ->capture_default_str();
  command.add_option("--xtc-probability", s.xtc_probability, "how often the top choices are excluded (0: never)")
      ->capture_default_str();
  command.add_option("--xtc-threshold", s.xtc_threshold, "share from which a token is a top choice; the least stays")
      ->capture_default_str();
}

void TurnArguments::add_penalties(CLI::App& command) {
  SamplerOptions& s = options.sampler;
  command.add_option("--repeat-penalty,--repetition-penalty", s.repetition_penalty,
                     "divides the logits of tokens that prompt or answer hold (1: off)")
      ->capture_default_str();
  command.add_option("--repeat-last-n", repetition_window, "how many tokens --repeat-penalty looks back (-1: all)")
      ->check(whole_number<int64_t>(-1))
      ->capture_default_str();
  command.add_option("--frequency-penalty", s.frequency_penalty, "taken off for each time the answer holds a token")
      ->capture_default_str();
  command.add_option("--presence-penalty", s.presence_penalty, "taken off tokens that the answer holds")
      ->capture_default_str();
  command.add_option("--dry-multiplier", s.dry_multiplier, "DRY: a penalty on going on with a repetition (0: off)")
      ->capture_default_str();
  command.add_option("--dry-base", s.dry_base, "DRY: by this it grows with each repeated token")->capture_default_str();
  command.add_option("--dry-allowed-length", s.dry_allowed_length, "DRY: shorter repetitions cost nothing")
      ->check(whole_number<size_t>(0))
      ->capture_default_str();
  command.add_option("--dry-penalty-last-n", dry_window, "DRY: how many tokens it looks back (-1: all)")
      ->check(whole_number<int64_t>(-1))
      ->capture_default_str();
  command.add_option("--dry-sequence-breaker", options.dry_sequence_breakers,
                     "DRY: no repetition reaches across this text (may be repeated; none: nothing stops one; "
                     "default: newline, colon, quote, asterisk)")
      ->allow_extra_args(false);
  command.add_option("--logit-bias", logit_biases,
                     "ID=VALUE is added to a token's logit (may be repeated; -inf: never)")
      ->allow_extra_args(false);
}

void TurnArguments::check_and_convert() {
  SamplerOptions& s = options.sampler;
  s.repetition_window = window_of(repetition_window);
  s.dry_window = window_of(dry_window);
  for (const std::string& text : logit_biases) {
    const auto [id, bias] = parse_logit_bias(text);
    s.logit_bias[id] = bias;
  }
  if (options.dry_sequence_breakers == std::vector<std::string>{"none"}) options.dry_sequence_breakers.clear();
  for (const std::string& text : options.dry_sequence_breakers) {
    if (text.empty()) throw CLI::ValidationError("--dry-sequence-breaker", "is empty");
  }
  const Status status = check_sampler_options(s, Sampler::kAnyVocabulary);
  if (!status.ok()) throw CLI::ValidationError(status.message());
}

TurnOptions TurnArguments::turn_options() const {
  TurnOptions result = options;
  result.speculate = speculate == "on";
  if (seed_option->count() > 0) result.sampler.seed = seed;
  return result;
}

Json turn_as_json(const Turn& turn, const Tokenizer& tokenizer) {
  const Usage& u = turn.usage;
  const Timings& t = turn.timings;
  Json json = {{"text", turn.text}, {"finish_reason", std::string(finish_reason_name(turn.finish_reason))}};
  if (!turn.stop_string.empty()) json["stop_string"] = turn.stop_string;
  json["seed"] = turn.seed;
  for (const TokenLogprobs& token : turn.logprobs) {
    Json one = likely_as_json(token.id, token.logprob, tokenizer);
    one["top"] = Json::array();
    for (const auto& [id, logprob] : token.top) one["top"].push_back(likely_as_json(id, logprob, tokenizer));
    json["logprobs"].push_back(std::move(one));
  }
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
