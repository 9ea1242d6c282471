// ibid chat: a conversation in the terminal; from a pipe, one message a line.
#include <signal.h>
#include <unistd.h>

#include <filesystem>
#include <memory>

#include "apps/chat/conversation.h"
#include "apps/chat/line_reader.h"
#include "apps/chat/load_engine.h"
#include "apps/chat/turn_arguments.h"
#include "apps/command.h"

namespace ibid {

namespace {

constexpr int kInterrupted = 130;  // as shells report a program that Ctrl-C ended

struct Arguments {
  ModelArguments model;
  TurnArguments turn;
};

// 0, or the exit status of what went wrong.
Result<int> run_chat(const Arguments& arguments) {
  signal(SIGPIPE, SIG_IGN);  // a closed standard output is seen when writing
  TRY_ASSIGN(const auto engine, load_engine(arguments.model));
  TRY_ASSIGN(ChatSession session, ChatSession::create(engine, {.system = arguments.turn.system}));

  const bool interactive = isatty(STDIN_FILENO) == 1;
  Screen screen;
  LineReader reader(interactive);
  Conversation conversation(std::move(session), arguments.turn.turn_options(), screen);
  if (interactive) {
    screen.note(std::filesystem::path(engine->name()).filename().string() + " · context " +
                std::to_string(engine->max_seq_len()) + " · /help");
  }
  std::string line;
  while (!screen.writing_failed()) {
    const LineReader::Outcome outcome = reader.read(line);
    if (outcome == LineReader::Outcome::kEnd) {
      if (interactive) screen.note("");  // Ctrl-D: the shell's prompt gets a line of its own
      break;
    }
    if (outcome == LineReader::Outcome::kInterrupted) {
      screen.note("\n/exit or Ctrl-D leaves");
      continue;
    }
    const Conversation::Next next = conversation.handle(line, interactive);
    if (next == Conversation::Next::kLeave) break;
    if (next == Conversation::Next::kInterrupted && !interactive) return kInterrupted;
  }
  if (screen.writing_failed()) return cannot_write();
  return !interactive && conversation.any_failed() ? 1 : 0;
}

}  // namespace

void add_chat(CLI::App& root, int& exit_code) {
  auto arguments = std::make_shared<Arguments>();
  CLI::App* command = root.add_subcommand("chat", "a conversation in the terminal; from a pipe one message a line");
  arguments->model.add_model(*command, false);
  arguments->model.add_running(*command);
  arguments->turn.add(*command);
  command->callback([arguments, &exit_code] {
    const Result<int> status = run_chat(*arguments);
    exit_code = status.ok() ? *status : report(status.status());
  });
}

}  // namespace ibid
