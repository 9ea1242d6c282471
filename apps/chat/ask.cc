// ibid ask: one answer on standard output and nothing else.
#include <signal.h>
#include <unistd.h>

#include <cstdio>
#include <iostream>
#include <memory>
#include <optional>
#include <sstream>

#include "apps/chat/interrupt.h"
#include "apps/chat/load_engine.h"
#include "apps/chat/turn_arguments.h"
#include "apps/command.h"
#include "apps/terminal_text.h"

namespace ibid {

namespace {

constexpr int kInterrupted = 130;

struct Arguments {
  ModelArguments model;
  TurnArguments turn;
  std::vector<std::string> words;  // [MODEL] TEXT
  bool json = false;
  std::optional<size_t> n_logprobs;
};

std::string read_question(const std::string& text) {
  if (text != "-") return text;
  std::ostringstream all;
  all << std::cin.rdbuf();
  return all.str();
}

Result<int> run_ask(Arguments arguments) {
  signal(SIGPIPE, SIG_IGN);
  if (arguments.words.size() == 2) arguments.model.model = arguments.words[0];
  const std::string question = read_question(arguments.words.back());
  if (question.empty()) return Status(ErrorCode::kInvalidArgument, "there is nothing to answer: TEXT is empty");
  TRY_ASSIGN(const auto engine, load_engine(arguments.model));
  TRY_ASSIGN(ChatSession session, ChatSession::create(engine, {.system = arguments.turn.system}));

  InterruptScope interrupt;
  TurnOptions options = arguments.turn.turn_options();
  options.stop = interrupt.token();
  options.n_logprobs = arguments.n_logprobs;
  bool ends_line = true;
  bool written = true;
  const bool terminal = isatty(STDOUT_FILENO) == 1;
  const auto write = [&](std::string_view text) {
    const std::string shown = terminal ? without_controls(text) : std::string(text);
    written = written && std::fwrite(shown.data(), 1, shown.size(), stdout) == shown.size() && std::fflush(stdout) == 0;
  };
  TRY_ASSIGN(const Turn turn, session.send(question, options, [&](const TurnEvent& event) {
    if (arguments.json || event.kind != TurnEvent::Kind::kText) return;
    write(event.text);
    ends_line = event.text.back() == '\n';
  }));
  if (arguments.json) write(json_to_string(turn_as_json(turn, engine->tokenizer())) + "\n");
  if (!arguments.json && !ends_line) write("\n");
  if (!written) return cannot_write();
  return interrupt.interrupted() ? kInterrupted : 0;
}

}  // namespace

void add_ask(CLI::App& root, int& exit_code) {
  auto arguments = std::make_shared<Arguments>();
  CLI::App* command = root.add_subcommand("ask", "one answer on standard output and nothing else");
  command->add_option("TEXT", arguments->words, "the question, or - for standard input; MODEL may stand before it")
      ->required()
      ->expected(1, -1);
  arguments->model.add_running(*command);
  arguments->turn.add(*command);
  CLI::Option* json = command->add_flag("--json", arguments->json, "print the whole turn as JSON");
  command->add_option("--logprobs", arguments->n_logprobs,
                      "with --json: each token's log-probability and the N likeliest")
      ->check(CLI::Range(size_t{0}, kMaxTopLogprobs))
      ->needs(json);
  command->callback([arguments, &exit_code] {
    if (arguments->words.size() > 2) throw CLI::ValidationError("TEXT", "is one argument; put it in quotes");
    const Result<int> status = run_ask(*arguments);
    exit_code = status.ok() ? *status : report(status.status());
  });
}

}  // namespace ibid
