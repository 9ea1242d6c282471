// The options of one answer, as chat and ask have them on the command line.
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
#include "runtime/session/chat_session.h"

namespace ibid {

// The reader of the answers. A person is spared endless answers (terminal_defaults()); a program gets what it asks
// for.
enum class AnswerReader : uint8_t { kPerson, kProgram };

struct TurnArguments {
  std::string system;
  std::string system_file;
  std::vector<std::string> stop_strings;

  // Declares the options. The command line refuses values out of range (CLI::ValidationError), but for ids that only
  // the model's vocabulary can tell. `this` must outlive the command.
  void add(CLI::App& command);

  // The options for a model: the library's defaults, for a person those of the terminal, what the catalog recommends
  // for this file, and what was given on the command line, each over the one before.
  TurnOptions turn_options(const Engine& engine, AnswerReader reader) const;

  // The same for a server's model, of which nothing is known but what was given.
  TurnOptions given_options() const;
  std::vector<const SamplingOption*> given() const;

  // The system message. Error: kIo for a --system-file that cannot be read.
  Result<std::string> system_message() const;

 private:
  void add_sampling(CLI::App& command, bool common, const char* group);
  void add_logit_bias(CLI::App& command, const char* group);
  void apply_given(TurnOptions& options) const;

  std::vector<std::pair<const SamplingOption*, std::string>> given_;  // in the table's order
  std::map<TokenId, double> logit_bias_;
  std::vector<std::string> breakers_;
};

// The options by which ask and chat hold answers to a form: --json-schema, --grammar, --regex, --choices
// (docs/structured_output.md). At most one of them.
struct FormArguments {
  std::string json_schema;  // a file, or the schema itself where it begins with {
  std::string grammar_file;
  std::string regex;
  std::vector<std::string> choices;

  // Declares the options. `this` must outlive the command.
  void add(CLI::App& command);

  // nullopt: the answer may be anything. Errors: those of reading a file, and of grammar/grammar.h, each with
  // the file or the option in front, and the place in it.
  Result<std::optional<Grammar>> grammar() const;

  // The same for a server, as the fields of a request that ibid and others know; empty: the answer may be anything.
  // A wrong form is an error here, too, before anything is sent.
  Result<Json> fields() const;

 private:
  struct Source {
    std::string name;  // for errors
    std::string text;
  };
  // The source of the schema or the grammar that is given.
  Result<Source> source() const;
};

// The parts of the one text that `ibid ask` sends: words of the command line, files and standard input.
struct Question {
  std::vector<std::string> words;  // "-" among them is standard input, there
  std::vector<std::string> files;  // "-" is standard input
};

// The parts in this order, with an empty line between them: the files as given, standard input (where `words` and
// `files` give it no place and `input` is not nullptr), the words with blanks between them. The question stands last:
// a model minds best what it read last. Newlines at the end of a part are not text.
// `input`: nullptr when nothing is to be read but where "-" stands. `input_named`: what "-" reads.
// Errors: kInvalidArgument: nothing in any part, "-" twice, or no UTF-8; kLimitExceeded; those of read_file().
Result<std::string> join_question(const Question& question, std::istream* input, std::istream& input_named);

// The options by which ask and chat send a message at once: -p TEXT and -f FILE; and -v.
struct MessageArguments {
  std::string prompt;
  std::vector<std::string> files;  // "-" is standard input, where the command allows that
  bool verbose = false;

  // Declares -p and -f with the help of the command. `this` must outlive the command.
  void add(CLI::App& command, const std::string& prompt_help, const std::string& file_help);
  void add_verbose(CLI::App& command);

  bool has_prompt() const { return prompt_option_->count() > 0; }
  bool given() const { return has_prompt() || !files.empty(); }

  // The files and behind them the prompt, for a command whose standard input is something else; nullopt when nothing
  // was given. Errors: kInvalidArgument for "-" as well, and those of join_question().
  Result<std::optional<std::string>> message() const;

 private:
  const CLI::Option* prompt_option_ = nullptr;
};

}  // namespace ibid
