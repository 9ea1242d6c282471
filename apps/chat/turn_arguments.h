// Options of one answer on the command line of chat and ask.
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

  // Declares the options. Values out of range throw CLI::ValidationError; token ids are checked only when the
  // vocabulary is known. `this` must outlive the command.
  void add(CLI::App& command);

  // Returns the options for a model. In increasing priority: the library's defaults, terminal_defaults() for a person,
  // the catalog's recommendations for this file, the command line.
  TurnOptions turn_options(const Engine& engine, AnswerReader reader) const;

  // As turn_options(), for a server's model: command-line options only.
  TurnOptions given_options() const;
  std::vector<const SamplingOption*> given() const;

  // Returns the system message. Error: kIo if the --system-file cannot be read.
  Result<std::string> system_message() const;

 private:
  void add_sampling(CLI::App& command, bool common, const char* group);
  void add_logit_bias(CLI::App& command, const char* group);
  void apply_given(TurnOptions& options) const;

  std::vector<std::pair<const SamplingOption*, std::string>> given_;  // in the order of the table
  std::map<TokenId, double> logit_bias_;
  std::vector<std::string> breakers_;
};

// Options for the response format: --json-schema, --grammar, --regex, --choices (docs/structured_output.md). At most
// one may be given.
struct ResponseFormatArguments {
  std::string json_schema;  // a file, or the schema itself if it begins with {
  std::string grammar_file;
  std::string regex;
  std::vector<std::string> choices;

  // Declares the options. `this` must outlive the command.
  void add(CLI::App& command);

  // Returns the grammar; nullopt: unconstrained. Errors: those of read_file() and of grammar/grammar.h, with the file
  // or option and the position.
  Result<std::optional<Grammar>> grammar() const;

  // Returns the response format as request fields understood by ibid and other servers; empty: unconstrained. Rejects
  // an invalid format before anything is sent.
  Result<Json> fields() const;

 private:
  struct Source {
    std::string name;  // for error messages
    std::string text;
  };
  // Returns the source of the schema or grammar.
  Result<Source> source() const;
};

// Parts of the text sent by `ibid ask`: words of the command line, files and standard input.
struct Question {
  std::vector<std::string> words;  // "-" stands for standard input at this place
  std::vector<std::string> files;  // "-" is standard input
};

// Joins the parts with empty lines between them: files, standard input (unless "-" places it), words. The question
// comes last because models weigh the end of a prompt most. Trailing newlines of parts are dropped. `input`: read if
// not nullptr and no "-" is given. `input_named`: read for "-". Errors: kInvalidArgument if all parts are empty, "-"
// occurs twice or a part is not UTF-8; kLimitExceeded; those of read_file().
Result<std::string> join_question(const Question& question, std::istream* input, std::istream& input_named);

// Options of ask and chat for an initial message: -p TEXT and -f FILE; and -v.
struct MessageArguments {
  std::string prompt;
  std::vector<std::string> files;  // "-" is standard input, if the command allows it
  bool verbose = false;

  // Declares -p and -f with help texts of the command. `this` must outlive the command.
  void add(CLI::App& command, const std::string& prompt_help, const std::string& file_help);
  void add_verbose(CLI::App& command);

  bool has_prompt() const { return prompt_option_->count() > 0; }
  bool given() const { return has_prompt() || !files.empty(); }

  // Returns the files followed by the prompt, without standard input; nullopt: none given. Errors: kInvalidArgument for
  // "-"; those of join_question().
  Result<std::optional<std::string>> message() const;

 private:
  const CLI::Option* prompt_option_ = nullptr;
};

}  // namespace ibid
