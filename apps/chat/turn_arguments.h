// The options of one answer on the command lines of chat and ask.
#pragma once

#include <CLI/App.hpp>
#include <cstdint>
#include <istream>
#include <map>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "apps/chat/sampling_options.h"
#include "base/json_limits.h"
#include "base/result.h"
#include "grammar/grammar.h"
#include "runtime/session/session_state.h"

namespace ibid {

// The reader of the answers. Answers for people are limited (terminal_defaults()); programs get the library's defaults.
enum class AnswerReader : uint8_t { kPerson, kProgram };

struct TurnArguments {
  std::string system;
  std::string system_file;
  std::vector<std::string> stop_strings;

  // Declares the options. A value out of range throws CLI::ValidationError. Token ids are checked later, when the
  // vocabulary is known. `this` must outlive the command.
  void add(CLI::App& command);

  // Returns the options for a model: the library's defaults, overridden in this order by terminal_defaults() for a
  // person, the catalog's recommendations for this file, and the command line.
  TurnOptions turn_options(const Engine& engine, AnswerReader reader) const;

  // Returns only the options on the command line, because for all others a server uses its own defaults.
  TurnOptions given_options() const;
  std::vector<const SamplingOption*> given() const;

  // Returns the system message. Error: kIo if the --system-file cannot be read.
  Result<std::string> system_message() const;

 private:
  void add_sampling(CLI::App& command, bool common, const char* group);
  void add_logit_bias(CLI::App& command, const char* group);
  void apply_given(TurnOptions& options) const;

  // Sampling options on the command line and their values, in the order of the table in sampling_options.h.
  std::vector<std::pair<const SamplingOption*, std::string>> given_;
  std::map<TokenId, double> logit_bias_;
  std::vector<std::string> breakers_;
};

// Options for the response format: --json-schema, --grammar, --regex, --choices (docs/structured_output.md). At most
// one may be given.
struct ResponseFormatArguments {
  std::string json_schema;  // path of a file, or the schema itself if it begins with {
  std::string grammar_file;
  std::string regex;
  std::vector<std::string> choices;

  // Declares the options. `this` must outlive the command.
  void add(CLI::App& command);

  // Returns the grammar; nullopt: unconstrained. Errors: those of read_file() and of grammar/grammar.h, with the file
  // or option and the position.
  Result<std::optional<Grammar>> grammar(const JsonFormat& format = {.for_answers = true}) const;

  // Returns the response format as request fields that ibid and other servers understand; empty: unconstrained. An
  // invalid format is an error, so that it is not sent.
  Result<Json> fields() const;

 private:
  struct Source {
    std::string name;  // file or option, for error messages
    std::string text;
  };
  // Returns the source of the schema or grammar.
  Result<Source> source() const;
};

// The parts of the text that `ibid ask` sends: words of the command line, files and standard input.
struct Question {
  std::vector<std::string> words;  // the word "-" is replaced by standard input
  std::vector<std::string> files;  // the file "-" is standard input
};

// Joins files, standard input and words, in this order, with empty lines between them. If a word or file is "-",
// standard input takes its place. The question comes last because models weigh the end of a prompt most. Newlines at
// the end of a part are dropped. `input`: standard input if no "-" is given; nullptr: not read. `input_named`: standard
// input for a "-". Errors: kInvalidArgument if all parts are empty, "-" occurs twice or a part is not UTF-8;
// kLimitExceeded; those of read_file().
Result<std::string> join_question(const Question& question, std::istream* input, std::istream& input_named);

// Options of ask and chat for a first message, -p TEXT and -f FILE, and the option -v.
struct MessageArguments {
  std::string prompt;
  std::vector<std::string> files;  // "-" is standard input, if the command allows it
  bool verbose = false;

  // Declares -p and -f with help texts of the command. `this` must outlive the command.
  void add(CLI::App& command, const std::string& prompt_help, const std::string& file_help);
  void add_verbose(CLI::App& command);

  bool has_prompt() const { return prompt_option_->count() > 0; }
  bool given() const { return has_prompt() || !files.empty(); }

  // Returns the first message: the files, followed by the prompt. Standard input is not read. nullopt if neither is
  // given. Errors: kInvalidArgument for "-"; those of join_question().
  Result<std::optional<std::string>> message() const;

 private:
  const CLI::Option* prompt_option_ = nullptr;
};

}  // namespace ibid
