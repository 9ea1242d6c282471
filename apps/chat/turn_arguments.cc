#include "apps/chat/turn_arguments.h"

#include <CLI/CLI.hpp>

#include <algorithm>
#include <charconv>
#include <optional>
#include <sstream>
#include <utility>

#include "apps/chat/recommended_sampling.h"
#include "apps/command_line/command.h"
#include "apps/models/model_catalog.h"
#include "base/file_ops.h"
#include "base/utf8.h"
#include "sampling/sampler.h"

namespace ibid {

namespace {

constexpr uint64_t kMaxSystemBytes = 16u << 20;

// Parses "ID=VALUE"; VALUE may be -inf.
std::optional<std::pair<TokenId, double>> parse_logit_bias(const std::string& text) {
  TokenId id = 0;
  double bias = 0;
  const char* end = text.data() + text.size();
  const auto [after_id, id_error] = std::from_chars(text.data(), end, id);
  if (id_error != std::errc() || after_id == end || *after_id != '=') return std::nullopt;
  const char* begin = after_id + 1;
  if (begin != end && *begin == '+') ++begin;  // from_chars does not accept a plus sign
  const auto [after_bias, bias_error] = std::from_chars(begin, end, bias);
  if (bias_error != std::errc() || after_bias != end) return std::nullopt;
  return std::pair(id, bias);
}

std::string known_models_text() {
  std::string text = "Default sampling of known models:";
  for (const KnownModel& model : known_models()) {
    text += "\n  " + std::string(model.name);
    for (const RecommendedOption& option : model.sampling) {
      text += std::string(" --") + option.name + " " + option.value;
    }
  }
  return text;
}

// Returns the default value for the help text: the default of chat and ask for people, and if programs get another one,
// also that of programs.
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
  command.add_option("--system-file", system_file, "read the system message from a file")
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
  command
      .add_option_function<std::vector<std::string>>(
          "--logit-bias", take, "add VALUE to the logit of token ID (may be repeated; -inf: never sample it)")
      ->type_name("ID=VALUE")
      ->allow_extra_args(false)
      ->group(group);
}

TurnOptions TurnArguments::turn_options(const Engine& engine, AnswerReader reader) const {
  TurnOptions options;
  if (reader == AnswerReader::kPerson) options = terminal_defaults(engine.max_seq_len());
  apply_recommended(engine.name(), options);
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

namespace {

constexpr const char* kFormGroup = "The form of answers";
constexpr uint64_t kMaxFormBytes = 8u << 20;

bool is_inline_json(const std::string& text) {
  const size_t begin = text.find_first_not_of(" \t\r\n");
  return begin != std::string::npos && text[begin] == '{';
}

// Splits "a,b\,c" into "a" and "b,c".
std::vector<std::string> split_choices(const std::string& text) {
  std::vector<std::string> choices(1);
  for (size_t i = 0; i < text.size(); ++i) {
    const bool escapes = text[i] == '\\' && i + 1 < text.size() && (text[i + 1] == ',' || text[i + 1] == '\\');
    if (escapes) {
      choices.back() += text[++i];
    } else if (text[i] == ',') {
      choices.emplace_back();
    } else {
      choices.back() += text[i];
    }
  }
  return choices;
}

Result<std::optional<Grammar>> named(const std::string& name, Result<Grammar> grammar) {
  if (!grammar.ok()) return Status(grammar.status().code(), name + ": " + grammar.status().message());
  return std::optional<Grammar>(*std::move(grammar));
}

}  // namespace

void ResponseFormatArguments::add(CLI::App& command) {
  CLI::Option* schema = add_text_option(command, "--json-schema", json_schema,
                                        "answers are JSON that this schema accepts: a file, or the schema itself");
  schema->type_name("FILE|JSON");
  CLI::Option* gbnf = add_text_option(command, "--grammar", grammar_file, "answers are texts of this grammar (GBNF)");
  gbnf->type_name("FILE");
  CLI::Option* pattern = add_text_option(command, "--regex", regex, "answers match this regular expression as a whole");
  pattern->type_name("RE");
  const auto take = [this](const std::vector<std::string>& given) {
    choices.clear();
    for (const std::string& text : given) {
      for (std::string& choice : split_choices(plain_text_argument(text))) {
        if (choice.empty()) throw CLI::ValidationError("--choices", "'" + text + "' has an empty choice");
        choices.push_back(std::move(choice));
      }
    }
  };
  CLI::Option* list = command.add_option_function<std::vector<std::string>>(
      "--choices", take, "an answer is one of these, with commas between (\\, is a comma; may be repeated)");
  list->type_name("A,B,C")->allow_extra_args(false);
  const std::vector<CLI::Option*> options = {schema, gbnf, pattern, list};
  for (CLI::Option* option : options) {
    // Refuse an empty response format, which is probably an unset variable of a script.
    option->check([](const std::string& text) { return text.empty() ? std::string("is empty") : std::string(); });
    option->group(kFormGroup);
    for (CLI::Option* other : options) {
      if (other != option) option->excludes(other);
    }
  }
}

Result<ResponseFormatArguments::Source> ResponseFormatArguments::source() const {
  if (is_inline_json(json_schema)) return Source{"--json-schema", json_schema};
  const std::string& path = json_schema.empty() ? grammar_file : json_schema;
  TRY_ASSIGN(std::string text, read_file(system_file_ops(), path, kMaxFormBytes));
  return Source{path, std::move(text)};
}

Result<std::optional<Grammar>> ResponseFormatArguments::grammar(const JsonFormat& format) const {
  if (!regex.empty()) return named("--regex", compile_regex(regex));
  if (!choices.empty()) return named("--choices", compile_choices(choices));
  if (json_schema.empty() && grammar_file.empty()) return std::optional<Grammar>();
  TRY_ASSIGN(const Source given, source());
  return named(given.name, json_schema.empty() ? compile_gbnf(given.text) : compile_json_schema(given.text, format));
}

Result<Json> ResponseFormatArguments::fields() const {
  TRY(grammar().status());
  Json fields = Json::object();
  if (!regex.empty()) fields["structured_outputs"]["regex"] = regex;
  if (!choices.empty()) fields["structured_outputs"]["choice"] = choices;
  if (json_schema.empty() && grammar_file.empty()) return fields;
  TRY_ASSIGN(const Source given, source());
  if (json_schema.empty()) {
    fields["grammar"] = given.text;
    return fields;
  }
  TRY_ASSIGN(Json schema, parse_json(given.text, given.name));
  Json format = Json::object();
  format["name"] = "answer";
  format["strict"] = true;
  format["schema"] = std::move(schema);
  fields["response_format"]["type"] = "json_schema";
  fields["response_format"]["json_schema"] = std::move(format);
  return fields;
}

namespace {

constexpr uint64_t kMaxBytes = 64u << 20;  // limit for a file or standard input, far above the text of any context

Result<std::string> checked(std::string text, const std::string& what) {
  if (!utf8_is_valid(text)) return Status(ErrorCode::kInvalidArgument, what + " is not UTF-8 text");
  return without_final_newlines(std::move(text));
}

Result<std::string> read_input(std::istream& input) {
  std::string text;
  char buffer[1 << 16];
  while (input.read(buffer, sizeof buffer), input.gcount() > 0) {
    text.append(buffer, static_cast<size_t>(input.gcount()));
    if (text.size() > kMaxBytes) {
      return Status(ErrorCode::kLimitExceeded, "standard input has more than " + std::to_string(kMaxBytes) + " bytes");
    }
  }
  return checked(std::move(text), "standard input");
}

void append_part(std::string& all, const std::string& part, const char* separator) {
  if (part.empty()) return;
  if (!all.empty()) all += separator;
  all += part;
}

}  // namespace

Result<std::string> join_question(const Question& question, std::istream* input, std::istream& input_named) {
  const auto n_named = std::count(question.words.begin(), question.words.end(), "-") +
                       std::count(question.files.begin(), question.files.end(), "-");
  if (n_named > 1) return Status(ErrorCode::kInvalidArgument, "standard input (-) can be read only once");
  std::string text;
  for (const std::string& path : question.files) {
    TRY_ASSIGN(std::string part, path == "-" ? read_input(input_named) : read_file(system_file_ops(), path, kMaxBytes));
    TRY_ASSIGN(part, checked(std::move(part), path));
    append_part(text, part, "\n\n");
  }
  if (n_named == 0 && input != nullptr) {
    TRY_ASSIGN(const std::string part, read_input(*input));
    append_part(text, part, "\n\n");
  }
  // Separator of two parts of the question; two words of the command line are separated by a blank.
  const char* separator = "\n\n";
  for (const std::string& word : question.words) {
    if (word == "-") {
      TRY_ASSIGN(const std::string part, read_input(input_named));
      append_part(text, part, "\n\n");
      separator = "\n\n";
      continue;
    }
    TRY_ASSIGN(const std::string part, checked(word, "TEXT"));
    append_part(text, part, separator);
    separator = " ";
  }
  if (text.find_first_not_of(" \t\r\n") == std::string::npos) {
    return Status(ErrorCode::kInvalidArgument, "nothing to answer: the text is empty");
  }
  return text;
}

void MessageArguments::add(CLI::App& command, const std::string& prompt_help, const std::string& file_help) {
  CLI::Option* option = add_text_option(command, "-p,--prompt", prompt, prompt_help);
  option->type_name("TEXT")->group(kCommonGroup);
  prompt_option_ = option;
  add_text_list(command, "-f,--file", files, file_help)->type_name("FILE")->group(kCommonGroup);
}

void MessageArguments::add_verbose(CLI::App& command) {
  command.add_flag("-v,--verbose", verbose, "print the model, the sampling and the speed on standard error")
      ->group(kCommonGroup);
}

Result<std::optional<std::string>> MessageArguments::message() const {
  if (!given()) return std::optional<std::string>();
  Question question{{}, files};
  if (has_prompt()) question.words.push_back(prompt);
  std::istringstream nothing;
  const auto is_input = [](const std::string& part) { return part == "-"; };
  if (std::any_of(files.begin(), files.end(), is_input) || (has_prompt() && is_input(prompt))) {
    return Status(ErrorCode::kInvalidArgument, "standard input is the conversation itself; name a file instead of -");
  }
  TRY_ASSIGN(std::string text, join_question(question, nullptr, nothing));
  return std::optional<std::string>(std::move(text));
}

}  // namespace ibid
