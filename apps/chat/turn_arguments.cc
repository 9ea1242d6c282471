#include "apps/chat/turn_arguments.h"

#include <CLI/CLI.hpp>

#include <algorithm>
#include <charconv>
#include <optional>

#include "apps/command_line/option_kinds.h"
#include "apps/models/model_catalog.h"
#include "base/file_ops.h"
#include "sampling/sampler.h"

namespace ibid {

namespace {

constexpr uint64_t kMaxSystemBytes = 16u << 20;

// "ID=VALUE"; VALUE may be -inf.
std::optional<std::pair<TokenId, double>> parse_logit_bias(const std::string& text) {
  TokenId id = 0;
  double bias = 0;
  const char* end = text.data() + text.size();
  const auto [behind_id, id_error] = std::from_chars(text.data(), end, id);
  if (id_error != std::errc() || behind_id == end || *behind_id != '=') return std::nullopt;
  const char* begin = behind_id + 1;
  if (begin != end && *begin == '+') ++begin;  // from_chars knows none
  const auto [behind_bias, bias_error] = std::from_chars(begin, end, bias);
  if (bias_error != std::errc() || behind_bias != end) return std::nullopt;
  return std::pair(id, bias);
}

std::string known_models_text() {
  std::string text = "What known models are sampled with, unless you say otherwise:";
  for (const KnownModel& model : known_models()) {
    text += "\n  " + std::string(model.name);
    for (const RecommendedOption& option : model.sampling) {
      text += std::string(" --") + option.name + " " + option.value;
    }
  }
  return text;
}

// The default as help shows it: what a person gets, and what a program gets where that is something else.
std::string default_text(const SamplingOption& option) {
  const std::string of_program = option.get(TurnOptions());
  const std::string of_person = option.get(terminal_defaults(4));
  if (of_person == of_program) return of_program;
  return (option.name() == "max-tokens" ? "a quarter of the context" : of_person) + ", with --json " + of_program;
}

}  // namespace

void TurnArguments::add(CLI::App& command) {
  command.footer(known_models_text());
  CLI::Option* text = add_text_option(command, "--system", system, "the system message");
  text->type_name("TEXT")->group(kCommonGroup);
  command.add_option("--system-file", system_file, "the system message from a file")
      ->type_name("FILE")
      ->excludes(text)
      ->group(kCommonGroup);
  add_sampling(command, true, kSamplingGroup);
  add_text_list(command, "--stop", stop_strings, "end an answer before this text (may be repeated)")
      ->type_name("TEXT")
      ->group(kSamplingGroup);
  add_sampling(command, false, kRareSamplingGroup);
  add_text_list(command, "--dry-sequence-breaker", breakers_,
                "DRY: no repetition reaches across this text (may be repeated; none: nothing stops one; default: "
                "newline, colon, quote, asterisk)")
      ->type_name("TEXT")
      ->each([](const std::string& given) {
        if (plain_text_argument(given).empty()) throw CLI::ValidationError("--dry-sequence-breaker", "is empty");
      })
      ->group(kRareSamplingGroup);
  add_logit_bias(command, kRareSamplingGroup);
}

void TurnArguments::add_sampling(CLI::App& command, bool common, const char* group) {
  for (const SamplingOption& option : sampling_options()) {
    if (option.common != common) continue;
    const auto take = [this, &option](const std::string& text) {
      TurnOptions scratch;
      const Status status = option.set(scratch, text);
      if (!status.ok()) throw CLI::ValidationError("--" + option.name(), status.message());
      given_.emplace_back(&option, text);
    };
    command.add_option_function<std::string>(option.flags, take, option.help)
        ->type_name(option.value)
        ->default_str(default_text(option))
        ->group(group);
  }
}

void TurnArguments::add_logit_bias(CLI::App& command, const char* group) {
  const auto take = [this](const std::vector<std::string>& texts) {
    SamplerOptions scratch;
    for (const std::string& text : texts) {
      const auto bias = parse_logit_bias(text);
      if (!bias) throw CLI::ValidationError("--logit-bias", "'" + text + "' is not ID=VALUE");
      scratch.logit_bias[bias->first] = bias->second;
    }
    const Status status = check_sampler_options(scratch, Sampler::kAnyVocabulary);
    if (!status.ok()) throw CLI::ValidationError("--logit-bias", status.message());
    logit_bias_ = scratch.logit_bias;
  };
  command.add_option_function<std::vector<std::string>>(
             "--logit-bias", take, "added to a token's logit (may be repeated; -inf: never)")
      ->type_name("ID=VALUE")
      ->allow_extra_args(false)
      ->group(group);
}

TurnOptions TurnArguments::turn_options(const Engine& engine, AnswerReader reader) const {
  TurnOptions options;
  if (reader == AnswerReader::kPerson) options = terminal_defaults(engine.max_seq_len());
  if (const KnownModel* known = known_model_of_file(engine.name())) {
    for (const RecommendedOption& option : known->sampling) {
      CHECK(apply_sampling(options, option.name, option.value).ok()) << known->name << ": " << option.name;
    }
  }
  apply_given(options);
  return options;
}

TurnOptions TurnArguments::given_options() const {
  TurnOptions options;
  apply_given(options);
  return options;
}

std::vector<const SamplingOption*> TurnArguments::given() const {
  std::vector<const SamplingOption*> options;
  for (const auto& [option, text] : given_) options.push_back(option);
  return options;
}

void TurnArguments::apply_given(TurnOptions& options) const {
  for (const auto& [option, text] : given_) CHECK(option->set(options, text).ok()) << option->name();
  options.sampler.logit_bias = logit_bias_;
  options.stop_strings = stop_strings;
  if (!breakers_.empty()) options.dry_sequence_breakers = breakers_;
  if (breakers_ == std::vector<std::string>{"none"}) options.dry_sequence_breakers.clear();
}

Result<std::string> TurnArguments::system_message() const {
  if (system_file.empty()) return system;
  TRY_ASSIGN(std::string text, read_file(system_file_ops(), system_file, kMaxSystemBytes));
  return without_final_newlines(std::move(text));
}

}  // namespace ibid
