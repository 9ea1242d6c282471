#include "apps/chat/sampling_options.h"

#include <algorithm>
#include <array>
#include <charconv>
#include <limits>
#include <optional>
#include <type_traits>
#include <utility>

#include "runtime/generate/generate.h"
#include "sampling/sampler.h"

namespace ibid {

namespace {

Status not_a_value(std::string_view text, const std::string& wanted) {
  return {ErrorCode::kInvalidArgument, "'" + std::string(text) + "' is not " + wanted};
}

template <typename T>
std::optional<T> number_of(std::string_view text) {
  if (text.starts_with('+')) text.remove_prefix(1);  // from_chars does not accept a plus sign
  T value{};
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), value);
  if (error != std::errc() || end != text.data() + text.size()) return std::nullopt;
  return value;
}

template <typename T>
std::string text_of(T value) {
  std::array<char, 32> buffer;
  const auto [end, error] = std::to_chars(buffer.data(), buffer.data() + buffer.size(), value);
  return {buffer.data(), end};
}

// Stores `changed` if its values are in range. Removes the sampler's field name from the error, because the caller adds
// the name of the option.
Status take(TurnOptions& options, SamplerOptions changed) {
  const Status status = check_sampler_options(changed, Sampler::kAnyVocabulary);
  if (!status.ok()) {
    const size_t colon = status.message().find(": ");
    return {status.code(), colon == std::string::npos ? status.message() : status.message().substr(colon + 2)};
  }
  options.sampler = std::move(changed);
  return {};
}

// Parses a numeric field, real or integer.
template <auto Field>
Status set_number(TurnOptions& options, std::string_view text) {
  SamplerOptions changed = options.sampler;
  using Number = std::remove_reference_t<decltype(changed.*Field)>;
  const std::optional<Number> value = number_of<Number>(text);
  if (!value) return not_a_value(text, std::is_integral_v<Number> ? "a whole number from 0 up" : "a number");
  changed.*Field = *value;
  return take(options, std::move(changed));
}

template <auto Field>
std::string get_number(const TurnOptions& options) {
  return text_of(options.sampler.*Field);
}

// Parses the window of a penalty; -1 means all tokens.
template <std::optional<size_t> SamplerOptions::*Field>
Status set_window(TurnOptions& options, std::string_view text) {
  const std::optional<int64_t> value = number_of<int64_t>(text);
  if (!value || *value < -1) return not_a_value(text, "a whole number from 0 up, or -1 for all");
  options.sampler.*Field = *value < 0 ? std::optional<size_t>() : static_cast<size_t>(*value);
  return {};
}

template <std::optional<size_t> SamplerOptions::*Field>
std::string get_window(const TurnOptions& options) {
  const std::optional<size_t>& window = options.sampler.*Field;
  return window ? std::to_string(*window) : "-1";
}

Status set_seed(TurnOptions& options, std::string_view text) {
  if (text == "random") {
    options.sampler.seed.reset();
    return {};
  }
  const std::optional<uint64_t> value = number_of<uint64_t>(text);
  if (!value) return not_a_value(text, "a whole number from 0 to 18446744073709551615, or random");
  options.sampler.seed = *value;
  return {};
}

std::string get_seed(const TurnOptions& options) {
  return options.sampler.seed ? std::to_string(*options.sampler.seed) : "random";
}

Status set_max_tokens(TurnOptions& options, std::string_view text) {
  if (text == "unlimited" || text == "-1") {
    options.max_tokens = 0;
    return {};
  }
  const std::optional<size_t> value = number_of<size_t>(text);
  if (!value) return not_a_value(text, "a whole number from 0 up, or unlimited");
  options.max_tokens = *value;
  return {};
}

std::string get_max_tokens(const TurnOptions& options) {
  return options.max_tokens == 0 ? "unlimited" : std::to_string(options.max_tokens);
}

template <bool TurnOptions::*Field>
Status set_switch(TurnOptions& options, std::string_view text) {
  if (text != "on" && text != "off") return not_a_value(text, "on or off");
  options.*Field = text == "on";
  return {};
}

template <bool TurnOptions::*Field>
std::string get_switch(const TurnOptions& options) {
  return options.*Field ? "on" : "off";
}

using S = SamplerOptions;

constexpr std::array kOptions = {
    SamplingOption{"--temperature,--temp", "T", "0 always takes the likeliest token", true, set_number<&S::temperature>,
                   get_number<&S::temperature>},
    SamplingOption{"--max-tokens,-n,--n-predict", "N|unlimited",
                   "the most tokens of an answer (0 or unlimited: what the context has room for)", true, set_max_tokens,
                   get_max_tokens},
    SamplingOption{"--seed,-s", "N|random", "the same seed gives the same answer", true, set_seed, get_seed},
    SamplingOption{"--top-p", "P", "keep the fewest tokens that hold this share", true, set_number<&S::top_p>,
                   get_number<&S::top_p>},
    SamplingOption{"--top-k", "K", "keep the K likeliest tokens (0: all)", true, set_number<&S::top_k>,
                   get_number<&S::top_k>},
    SamplingOption{"--min-p", "P", "drop tokens below this share of the likeliest", true, set_number<&S::min_p>,
                   get_number<&S::min_p>},
    SamplingOption{"--repeat-penalty,--repetition-penalty", "R",
                   "divides the logits of tokens that prompt or answer hold (1: off)", true,
                   set_number<&S::repetition_penalty>, get_number<&S::repetition_penalty>},
    SamplingOption{"--repeat-last-n", "N", "how many tokens --repeat-penalty looks back (-1: all)", true,
                   set_window<&S::repetition_window>, get_window<&S::repetition_window>},
    SamplingOption{"--stop-repetition", "on|off", "end an answer that repeats itself", true,
                   set_switch<&TurnOptions::stop_repetition>, get_switch<&TurnOptions::stop_repetition>},
    SamplingOption{"--typical-p,--typical", "P", "keep the most typical tokens that hold this share (1: all)", false,
                   set_number<&S::typical_p>, get_number<&S::typical_p>},
    SamplingOption{"--xtc-probability", "P", "how often the top choices are excluded (0: never)", false,
                   set_number<&S::xtc_probability>, get_number<&S::xtc_probability>},
    SamplingOption{"--xtc-threshold", "P", "share from which a token is a top choice; the least likely stays", false,
                   set_number<&S::xtc_threshold>, get_number<&S::xtc_threshold>},
    SamplingOption{"--frequency-penalty", "F", "subtracted from a logit each time the answer holds its token", false,
                   set_number<&S::frequency_penalty>, get_number<&S::frequency_penalty>},
    SamplingOption{"--presence-penalty", "F", "subtracted from a logit if the answer holds its token", false,
                   set_number<&S::presence_penalty>, get_number<&S::presence_penalty>},
    SamplingOption{"--dry-multiplier", "M", "DRY: a penalty on continuing a repetition (0: off)", false,
                   set_number<&S::dry_multiplier>, get_number<&S::dry_multiplier>},
    SamplingOption{"--dry-base", "B", "DRY: factor of the penalty for each repeated token", false,
                   set_number<&S::dry_base>, get_number<&S::dry_base>},
    SamplingOption{"--dry-allowed-length", "N", "DRY: shorter repetitions are not penalised", false,
                   set_number<&S::dry_allowed_length>, get_number<&S::dry_allowed_length>},
    SamplingOption{"--dry-penalty-last-n", "N", "DRY: how many tokens it looks back (-1: all)", false,
                   set_window<&S::dry_window>, get_window<&S::dry_window>},
    SamplingOption{"--speculate", "on|off", "verify drafts from the conversation: the same answer, sooner", false,
                   set_switch<&TurnOptions::speculate>, get_switch<&TurnOptions::speculate>},
};

// Calls `use` with each name in `flags` ("--a,-b"), without dashes, until `use` returns true.
template <typename Use>
bool any_name(std::string_view flags, const Use& use) {
  while (!flags.empty()) {
    const size_t comma = std::min(flags.find(','), flags.size());
    std::string_view one = flags.substr(0, comma);
    one.remove_prefix(one.find_first_not_of('-'));
    if (use(one)) return true;
    flags.remove_prefix(std::min(comma + 1, flags.size()));
  }
  return false;
}

}  // namespace

std::string SamplingOption::name() const {
  std::string first;
  any_name(flags, [&](std::string_view one) {
    first = one;
    return true;
  });
  return first;
}

std::span<const SamplingOption> sampling_options() { return kOptions; }

const SamplingOption* find_sampling_option(std::string_view name) {
  name.remove_prefix(std::min(name.find_first_not_of('-'), name.size()));
  for (const SamplingOption& option : kOptions) {
    if (any_name(option.flags, [&](std::string_view one) { return one == name; })) return &option;
  }
  return nullptr;
}

Status apply_sampling(TurnOptions& options, std::string_view name, std::string_view value) {
  const SamplingOption* option = find_sampling_option(name);
  if (option == nullptr) return {ErrorCode::kInvalidArgument, "unknown option '" + std::string(name) + "'"};
  const Status status = option->set(options, value);
  if (status.ok()) return status;
  return {status.code(), option->name() + ": " + status.message()};
}

TurnOptions terminal_defaults(size_t max_seq_len) {
  TurnOptions options;
  guard_answer(options, max_seq_len);
  return options;
}

std::string describe_sampling(const TurnOptions& options) {
  const TurnOptions defaults;
  std::string words;
  for (const SamplingOption& option : kOptions) {
    const std::string value = option.get(options);
    if (value == option.get(defaults)) continue;
    words += (words.empty() ? "--" : " --") + option.name() + " " + value;
  }
  return words;
}

}  // namespace ibid
