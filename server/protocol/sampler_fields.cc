#include <algorithm>
#include <charconv>
#include <limits>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "sampling/sampler.h"
#include "server/protocol/answer_fields.h"
#include "server/protocol/prompts.h"

namespace ibid::serve {

namespace {

using S = SamplerOptions;

constexpr double kMostTokens = 2147483647;  // the largest number of tokens that a request may name
constexpr double kMost64 = 18446744073709551615.0;
constexpr double kLeast64 = -9223372036854775808.0;
constexpr size_t kMaxBiases = 1024;
constexpr size_t kMaxBiasTextBytes = 256;
constexpr size_t kMaxBreakers = 64;

template <auto Member>
void set_option(const Json& value, AnswerRequest& request) {
  store(value, request.options.*Member);
}
template <auto Member>
void set_sampler(const Json& value, AnswerRequest& request) {
  store(value, request.options.sampler.*Member);
}

// Other programs read 0 as "only the likeliest token". The sampler needs a share above 0, so 0 becomes the smallest
// positive number.
template <double S::*Member>
void set_share(const Json& value, AnswerRequest& request) {
  const double share = value.get<double>();
  request.options.sampler.*Member = share > 0 ? share : std::numeric_limits<double>::min();
}

// Negative values: set_top_k() stores 0, set_window() no limit.
void set_top_k(const Json& value, AnswerRequest& request) {
  request.options.sampler.top_k = static_cast<size_t>(std::max<int64_t>(integer_of(value), 0));
}
template <std::optional<size_t> S::*Member>
void set_window(const Json& value, AnswerRequest& request) {
  const int64_t count = integer_of(value);
  request.options.sampler.*Member = count < 0 ? std::optional<size_t>() : static_cast<size_t>(count);
}

void set_seed(const Json& value, AnswerRequest& request) {
  std::optional<uint64_t>& seed = request.options.sampler.seed;
  if (value.is_number_unsigned()) {
    seed = value.get<uint64_t>();
  } else {
    const int64_t number = integer_of(value);
    seed = number == -1 ? std::optional<uint64_t>() : static_cast<uint64_t>(number);
  }
}

// Until an answer has min_tokens tokens, tokens that would end it are banned. So ignore_eos sets min_tokens to its
// maximum.
void set_ignore_eos(const Json& value, AnswerRequest& request) {
  if (!value.get<bool>()) return;
  request.options.min_tokens = std::numeric_limits<size_t>::max();
  request.chooses_length = true;
}

constexpr FieldRule kStopText{.shape = Shape::kText, .least = 1, .most = kMaxStopBytes, .neutral = R"([""])"};

// Reads a list of at most max_entries texts, and drops empty ones. The param of a fault names the entry.
std::vector<std::string> read_texts(const Json& list, size_t max_entries) {
  if (list.size() > max_entries) {
    throw Fault{.message = "must have at most " + std::to_string(max_entries) + " entries, not " +
                           std::to_string(list.size())};
  }
  std::vector<std::string> texts;
  read_each(list, [&](const Json& entry) {
    if (is_neutral(kStopText, entry)) return;
    check_shape(kStopText, entry);
    texts.push_back(entry.get<std::string>());
  });
  return texts;
}

// Reads a list, which some clients send as JSON in a string.
void read_breakers(const Json& value, AnswerRequest& request) {
  Json list = value;
  if (value.is_string()) {
    Result<Json> parsed = parse_json(value.get_ref<const std::string&>(), "the list");
    if (parsed.ok()) list = *std::move(parsed);
  }
  if (!list.is_array()) throw wrong_type("must be a list of strings");
  request.options.dry_sequence_breakers = read_texts(list, kMaxBreakers);
}

// Returns the bias that `value` means: false bans the token, as -100 does.
double bias_of(const Json& value, const std::string& param) {
  if (value.is_boolean() && !value.get<bool>()) return -std::numeric_limits<double>::infinity();
  if (!value.is_number() || value.get<double>() < -100 || value.get<double>() > 100) {
    throw Fault{.message = "must be a number, -100 to 100", .param = param};
  }
  // -100 bans the token, as with OpenAI.
  const double bias = value.get<double>();
  return bias <= -100 ? -std::numeric_limits<double>::infinity() : bias;
}

void add_bias(const std::string& id_text, const Json& value, AnswerRequest& request) {
  const std::string param = "." + id_text.substr(0, 20);
  TokenId id = 0;
  const auto [end, error] = std::from_chars(id_text.data(), id_text.data() + id_text.size(), id);
  if (error != std::errc() || end != id_text.data() + id_text.size() || id < 0) {
    throw Fault{.message = "is not a token id: keys must be whole numbers, at least 0", .param = param};
  }
  request.options.sampler.logit_bias[id] = bias_of(value, param);
}

void add_text_bias(const std::string& text, const std::string& param, double bias, AnswerRequest& request) {
  if (text.empty() || text.size() > kMaxBiasTextBytes) {
    throw Fault{.message = "must be a text of 1 to " + std::to_string(kMaxBiasTextBytes) + " bytes", .param = param};
  }
  request.text_biases.emplace_back(text, bias);
}

bool is_whole_number(std::string_view text) {
  if (text.starts_with('-')) text.remove_prefix(1);
  return !text.empty() && text.find_first_not_of("0123456789") == text.npos;
}

// Reads {"50256": -100}, or llama.cpp's [[50256, -1.5], [11, false], ["text", -100]], in which a text stands for each
// of its tokens. has_texts: keys of an object may be texts, too.
void read_biases(const Json& value, bool has_texts, AnswerRequest& request) {
  if (!value.is_structured()) throw wrong_type("must be an object of token ids and numbers");
  if (value.size() > kMaxBiases) {
    throw Fault{.message = "must have at most " + std::to_string(kMaxBiases) + " entries"};
  }
  if (value.is_object()) {
    for (const auto& [key, bias] : value.get_ref<const Json::object_t&>()) {
      const std::string param = "." + key.substr(0, 20);
      if (has_texts && !is_whole_number(key)) {
        add_text_bias(key, param, bias_of(bias, param), request);
      } else {
        add_bias(key, bias, request);
      }
    }
    return;
  }
  for (size_t i = 0; i < value.size(); ++i) {
    const Json& pair = value[i];
    if (!pair.is_array() || pair.size() != 2 || !(pair[0].is_number_integer() || pair[0].is_string())) {
      throw Fault{.message = "must be a pair of a token id or a text, and a number", .param = place_in_list(i)};
    }
    if (pair[0].is_string()) {
      read_at(place_in_list(i),
              [&] { add_text_bias(pair[0].get<std::string>(), "[0]", bias_of(pair[1], "[1]"), request); });
    } else {
      add_bias(std::to_string(pair[0].get<int64_t>()), pair[1], request);
    }
  }
}

constexpr std::string_view kStopSchema =
    R"({"oneOf":[{"type":"string"},{"type":"array","items":{"type":"string"},"maxItems":128}]})";
void read_logit_bias(const Json& value, AnswerRequest& request) { read_biases(value, false, request); }

constexpr std::string_view kTokenIdsSchema =
    R"({"type":"array","items":{"type":"integer","minimum":0,"maximum":2147483647}})";
constexpr std::string_view kBreakersSchema = R"({"type":"array","items":{"type":"string"},"maxItems":64})";

// The samplers of llama.cpp's field "samplers", in its default order; off: a function that turns the sampler off.
struct NamedSampler {
  std::string_view name, other_name;
  char letter;
  void (*off)(S& sampler);
};
constexpr NamedSampler kSamplers[] = {
    {"penalties", "penalties", 'e',
     [](S& s) { s.repetition_penalty = 1, s.frequency_penalty = s.presence_penalty = 0; }},
    {"dry", "dry", 'd', [](S& s) { s.dry_multiplier = 0; }},
    {"top_n_sigma", "top_n_sigma", 's', [](S&) {}},
    {"top_k", "top_k", 'k', [](S& s) { s.top_k = 0; }},
    {"tfs_z", "tail_free", 'f', [](S&) {}},
    {"typ_p", "typical_p", 'y', [](S& s) { s.typical_p = 1; }},
    {"top_p", "nucleus", 'p', [](S& s) { s.top_p = 1; }},
    {"min_p", "min_p", 'm', [](S& s) { s.min_p = 0; }},
    {"xtc", "xtc", 'x', [](S& s) { s.xtc_probability = 0; }},
    {"temperature", "temp", 't', [](S& s) { s.temperature = 1; }},
};
// Adds the index in kSamplers of a sampler's name or letter. Ignores samplers that do not exist here: the fields that
// would turn them on are refused.
void add_sampler(std::string_view name, std::vector<size_t>& named) {
  for (size_t i = 0; i < std::size(kSamplers); ++i) {
    const NamedSampler& one = kSamplers[i];
    const bool is_it = name == one.name || name == one.other_name || name == std::string_view(&one.letter, 1);
    if (is_it) named.push_back(i);
  }
}

// Reads a list of names, or a string of letters. Turns the samplers off that it does not name.
void read_samplers(const Json& value, AnswerRequest& request) {
  std::vector<size_t> named;
  if (value.is_array()) {
    for (const Json& name : value) {
      if (!name.is_string()) throw wrong_type("must be a list of names or a string of letters");
      add_sampler(name.get_ref<const std::string&>(), named);
    }
  } else if (value.is_string()) {
    for (const char& letter : value.get_ref<const std::string&>()) {
      add_sampler(std::string_view(&letter, 1), named);
    }
  } else {
    throw wrong_type("must be a list of names or a string of letters");
  }
  std::ranges::sort(named);
  for (size_t i = 0; i < std::size(kSamplers); ++i) {
    if (!std::ranges::binary_search(named, i)) kSamplers[i].off(request.options.sampler);
  }
  ignore(request.ignored, {.field = "samplers",
                           .reason = "only switches samplers off, their order is fixed: temperature is applied "
                                     "before top_k, top_p, min_p, typ_p and xtc"});
}

constexpr std::string_view kSamplersSchema =
    R"({"oneOf":[{"type":"array","items":{"type":"string"}},{"type":"string"}]})";

template <double S::*Member>
constexpr Field<AnswerRequest> real(std::string_view name, double least, double most, std::string_view about) {
  return {{name, Shape::kNumber, about, least, most}, set_sampler<Member>};
}

template <double S::*Member>
constexpr Field<AnswerRequest> share(std::string_view name, std::string_view about) {
  return {{name, Shape::kNumber, about, 0, 1}, set_share<Member>};
}

template <std::optional<size_t> S::*Member>
constexpr Field<AnswerRequest> window(std::string_view name, std::string_view about) {
  return {{name, Shape::kInteger, about, -1, kMostTokens}, set_window<Member>};
}

void set_stop_repetition(const Json& value, AnswerRequest& request) {
  store(value, request.options.stop_repetition);
  request.chooses_repetition = true;
}

void set_standard_schema(const Json& value, AnswerRequest& request) {
  request.form.standard_schema = value.get<bool>();
}

constexpr std::string_view kNoSampler = "this sampler is not supported";
constexpr std::string_view kFixedOrder =
    "the order of the samplers is fixed: temperature is applied before top_k, top_p, min_p, typ_p and xtc";
constexpr std::string_view kOfOtherSampler = "belongs to a sampler that is not supported";

// If two rows set the same option, the later one wins.
constexpr Field<AnswerRequest> kSamplerFields[] = {
    real<&S::temperature>("temperature", 0, 100, "0: always the most likely token"),
    share<&S::top_p>("top_p", "keep the fewest tokens whose probabilities add up to this"),
    {{"top_k", Shape::kInteger, "keep the k most likely tokens; 0 or -1: all", -1, kMostTokens}, set_top_k},
    real<&S::min_p>("min_p", 0, 1, "drop tokens below this fraction of the highest probability"),
    share<&S::typical_p>("typical_p", "keep the most typical tokens whose probabilities add up to this; 1: off"),
    share<&S::typical_p>("typical", "the same as typical_p"),
    {{"seed", Shape::kInteger, "the same seed gives the same answer; -1: random", kLeast64, kMost64, Standing::kRead,
      R"({"type":"integer","minimum":-9223372036854775808,"maximum":18446744073709551615})"},
     set_seed},
    with_neutral(real<&S::repetition_penalty>("repetition_penalty", 0.001, 100,
                                              "penalty on tokens that occur in the prompt or the answer; 1: off"),
                 "[0]"),
    with_neutral(real<&S::repetition_penalty>("repeat_penalty", 0.001, 100, "the same as repetition_penalty"), "[0]"),
    window<&S::repetition_window>("repeat_last_n", "number of last tokens that repetition_penalty counts; -1: all"),
    real<&S::frequency_penalty>("frequency_penalty", -2, 2,
                                "subtracted from a token's logit for each occurrence in the answer"),
    real<&S::presence_penalty>("presence_penalty", -2, 2,
                               "subtracted from the logits of tokens that occur in the answer"),
    real<&S::dry_multiplier>("dry_multiplier", 0, 1000, "DRY: penalty on continuing a repetition; 0: off"),
    with_neutral(
        real<&S::dry_base>("dry_base", 1, 100, "DRY: factor by which the penalty grows with each repeated token"),
        "[0]"),
    {{"dry_allowed_length", Shape::kInteger, "DRY: shorter repetitions are not penalized", 1, 50, Standing::kRead, "",
      false, "[0]"},
     set_sampler<&S::dry_allowed_length>},
    window<&S::dry_window>("dry_penalty_last_n", "DRY: number of last tokens searched for repetitions; -1: all"),
    {{"dry_sequence_breakers", Shape::kAny,
      "DRY: repetitions do not extend across a token that contains one of these strings", 0, 0, Standing::kRead,
      kBreakersSchema, false, R"([""])"},
     read_breakers},
    real<&S::xtc_probability>("xtc_probability", 0, 1, "XTC: probability of excluding the top choices; 0: never"),
    real<&S::xtc_threshold>("xtc_threshold", 0, 1,
                            "XTC: minimum probability of a top choice; the least likely top choice is kept"),
    {{"logit_bias", Shape::kAny,
      "added to the logits of these tokens; -100: never sampled. In a list of pairs a text stands for its tokens", 0, 0,
      Standing::kRead, kBiasSchema},
     read_logit_bias},
    {{"stop", Shape::kAny, "strings that end the answer and are not part of it: one, or up to 128 of 1 to 1024 bytes",
      0, 0, Standing::kRead, kStopSchema},
     read_stop},
    {{"min_tokens", Shape::kInteger, "number of tokens before which the model cannot end its answer", 0, kMostTokens},
     set_option<&TurnOptions::min_tokens>},
    {{"ignore_eos", Shape::kBoolean, "the model cannot end its answer: only max_tokens, the context or stop ends it"},
     set_ignore_eos},
    {{"stop_repetition", Shape::kBoolean, "end an answer that repeats itself; default: see answer_guard"},
     set_stop_repetition},
    {{"answer_guard", Shape::kBoolean,
      "end an answer that repeats itself, and after a quarter of the context if the request names no maximum length; "
      "default: only for requests without a maximum length and for answers in JSON, unless the server runs with "
      "--no-answer-guard"},
     set<&AnswerRequest::guard>},
    {{"standard_schema", Shape::kBoolean,
      "follow the JSON Schema specification strictly in the response format: objects may have properties that the "
      "schema does not list, and numbers any length; default: false, unless the server runs with --standard-schemas"},
     set_standard_schema},
    {{"speculate", Shape::kBoolean, "speculative decoding with drafts from the conversation: the same answer, sooner"},
     set_option<&TurnOptions::speculate>},
    refused_field<AnswerRequest>("mirostat", kNoSampler),
    refused_field<AnswerRequest>("mirostat_mode", kNoSampler),
    refused_field<AnswerRequest>("dynatemp_range", kNoSampler),
    refused_field<AnswerRequest>("dynamic_temperature", kNoSampler),
    refused_field<AnswerRequest>("top_a", kNoSampler),
    refused_field<AnswerRequest>("tfs_z", kNoSampler, "[0,1]"),
    refused_field<AnswerRequest>("tfs", kNoSampler, "[0,1]"),
    refused_field<AnswerRequest>("epsilon_cutoff", kNoSampler),
    refused_field<AnswerRequest>("eta_cutoff", kNoSampler),
    refused_field<AnswerRequest>("smoothing_factor", kNoSampler),
    refused_field<AnswerRequest>("adaptive_target", kNoSampler, R"([{"maximum":0}])"),
    refused_field<AnswerRequest>("penalty_alpha", "contrastive search is not supported"),
    refused_field<AnswerRequest>("guidance_scale", "guidance by a second prompt is not supported", "[0,1]"),
    refused_field<AnswerRequest>("no_repeat_ngram_size", "see dry_multiplier"),
    refused_field<AnswerRequest>("encoder_repetition_penalty", "see repetition_penalty", "[0,1]"),
    refused_field<AnswerRequest>("length_penalty", "beam search is not supported", "[0,1]"),
    refused_field<AnswerRequest>("early_stopping", "beam search is not supported"),
    {{"samplers", Shape::kAny, "the samplers that are on, in llama.cpp's default order; others are off", 0, 0,
      Standing::kRead, kSamplersSchema, false, R"([[],""])"},
     read_samplers},
    ignored_field<AnswerRequest>("sampler_priority", kFixedOrder),
    ignored_field<AnswerRequest>("sampler_order", kFixedOrder),
    refused_field<AnswerRequest>("skip_special_tokens", "special tokens are never part of the text", "[true]"),
    refused_field<AnswerRequest>("stop_token_ids", "see stop"),
    refused_field<AnswerRequest>("bad_words", "see logit_bias"),
    {{"allowed_token_ids", Shape::kList,
      "the answer consists of these tokens only, so the model can end it only if they include an end token", 0,
      kMaxPromptIds, Standing::kRead, kTokenIdsSchema, false, "[[]]"},
     [](const Json& value, AnswerRequest& request) { read_token_ids(value, request.allowed_tokens); }},
    {{"logprob_token_ids", Shape::kList,
      "return the log-probabilities of these tokens and of the sampled one, not those of the most likely tokens", 0,
      kMaxLogprobIds, Standing::kRead, kTokenIdsSchema, false, "[[]]"},
     [](const Json& value, AnswerRequest& request) { read_token_ids(value, request.options.logprob_token_ids); }},
    refused_field<AnswerRequest>("top_n_sigma", kNoSampler, R"([{"maximum":0}])"),
    {{"post_sampling_probs", Shape::kBoolean,
      "return probabilities after the samplers and the constraint, only of tokens that could be sampled"},
     set_option<&TurnOptions::logprobs_after_sampling>},
    refused_field<AnswerRequest>("use_beam_search", "beam search is not supported"),
    ignored_field<AnswerRequest>("mirostat_tau", kOfOtherSampler),
    ignored_field<AnswerRequest>("mirostat_eta", kOfOtherSampler),
    ignored_field<AnswerRequest>("dynatemp_exponent", kOfOtherSampler, "[0,1]"),
    ignored_field<AnswerRequest>("smoothing_curve", kOfOtherSampler, "[0,1]"),
    ignored_field<AnswerRequest>("adaptive_decay", kOfOtherSampler),
    ignored_field<AnswerRequest>("temperature_last", "temperature is always applied first"),
    ignored_field<AnswerRequest>("min_keep", "at least one token is always kept", "[0,1]"),
    ignored_field<AnswerRequest>("spaces_between_special_tokens", "special tokens are never part of the text",
                                 "[false,true]"),
};

}  // namespace

std::span<const Field<AnswerRequest>> sampler_fields() { return kSamplerFields; }

void read_llama_bias(const Json& value, AnswerRequest& request) { read_biases(value, true, request); }

void note_chosen_length(const Json& fields, AnswerRequest& request) {
  for (const char* name : {"max_tokens", "max_completion_tokens", "max_output_tokens", "n_predict", "num_predict"}) {
    request.chooses_length |= member(fields, name) != nullptr;
  }
}

void read_stop(const Json& value, AnswerRequest& request) {
  std::vector<std::string>& stops = request.options.stop_strings;
  if (value.is_array()) {
    stops = read_texts(value, kMaxStopStrings);
  } else if (value.is_string()) {
    if (is_neutral(kStopText, value)) return;
    check_shape(kStopText, value);
    stops = {value.get<std::string>()};
  } else {
    throw wrong_type("must be a string or a list of strings");
  }
}

void check_sampler(const AnswerRequest& request) {
  const Status status = check_sampler_options(request.options.sampler, Sampler::kAnyVocabulary);
  if (status.ok()) return;
  const size_t colon = std::min(status.message().find(": "), status.message().size());
  throw Fault{.message = "is out of range" + status.message().substr(colon),
              .param = status.message().substr(0, colon)};
}

}  // namespace ibid::serve
