// ibid chat: a conversation in the terminal; from a pipe, one message a line.
#include <signal.h>
#include <unistd.h>

#include <filesystem>
#include <memory>
#include <optional>
#include <string>

#include "apps/chat/cache_ending.h"
#include "apps/chat/conversation.h"
#include "apps/chat/line_reader.h"
#include "apps/chat/load_engine.h"
#include "apps/chat/saved_sessions.h"
#include "apps/chat/turn_arguments.h"
#include "apps/command.h"
#include "apps/option_kinds.h"

namespace ibid {

namespace {

struct Arguments {
  ModelArguments model;
  TurnArguments turn;
  std::string resume;
  const CLI::Option* resume_option = nullptr;
  std::string when_full = "error";
  const CLI::Option* when_full_option = nullptr;
};

WhenFull policy(const std::string& name) {
  return name == "drop" ? WhenFull::kDropOldestTurns : name == "cut" ? WhenFull::kCutNewestMessage : WhenFull::kError;
}

void tell_what_was_resumed(const Arguments& arguments, const ResumedSession& resumed, Screen& screen) {
  const ChatSession& session = resumed.session;
  if (resumed.is_new) {
    screen.note("a new conversation, kept as '" + arguments.resume + "'");
  } else {
    screen.note("'" + arguments.resume + "' goes on: " + std::to_string(session.messages().size()) + " messages, " +
                std::to_string(session.ids().size()) + " tokens, of them " + std::to_string(session.kv().length()) +
                " read from disk");
    if (arguments.when_full_option->count() > 0) {
      screen.note("--when-full is for new conversations; this one keeps what it was begun with");
    }
  }
  if (const Status& status = session.engine()->tier_status(); !status.ok()) {
    screen.note("the cache of keys and values is not used: " + status.message());
  }
}

// 0, or the exit status of what went wrong.
Result<int> run_chat(const Arguments& arguments) {
  signal(SIGPIPE, SIG_IGN);  // a closed standard output is seen when writing
  std::string path;
  if (arguments.resume_option->count() > 0) {
    TRY_ASSIGN(path, session_path(arguments.resume));
  }
  std::string cache;
  if (!path.empty()) {
    TRY_ASSIGN(cache, kv_cache_directory());
  }
  const bool interactive = isatty(STDIN_FILENO) == 1;
  TRY_ASSIGN(const auto engine, load_engine(arguments.model, cache, interactive));
  TRY_ASSIGN(std::string system, arguments.turn.system_message());
  SessionOptions options{.system = std::move(system), .when_full = policy(arguments.when_full)};
  std::optional<ResumedSession> resumed;
  if (path.empty()) {
    TRY_ASSIGN(ChatSession session, ChatSession::create(engine, std::move(options)));
    resumed = ResumedSession{std::move(session), true, nullptr};
  } else {
    TRY_ASSIGN(resumed, resume_session(engine, path, std::move(options)));
  }

  Screen screen;
  LineReader reader(interactive);
  if (!path.empty()) tell_what_was_resumed(arguments, *resumed, screen);
  const CacheEnding cache_ending(engine, screen);
  Conversation conversation(std::move(resumed->session), arguments.turn.turn_options(*engine), path, screen);
  if (interactive) {
    screen.note(std::filesystem::path(engine->name()).filename().string() + " · context " +
                std::to_string(engine->max_seq_len()) + " · /help");
  }
  std::string line;
  while (!screen.writing_failed()) {
    const LineReader::Outcome outcome = reader.read(line);
    if (outcome == LineReader::Outcome::kEnd) break;
    if (outcome == LineReader::Outcome::kInterrupted) {
      screen.note("/exit or Ctrl-D leaves");
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
  CLI::Option* resume = command->add_option("--resume", arguments->resume,
                                            "keep the conversation under this name, and go on where it stopped");
  resume->type_name("NAME")->group(kCommonGroup);
  arguments->resume_option = resume;
  CLI::Option* when_full = command->add_option(
      "--when-full", arguments->when_full,
      "what a full context does: an error, drop the oldest turns, cut the middle of the newest message");
  when_full->type_name("error|drop|cut")->check(one_of({"error", "drop", "cut"}))->capture_default_str();
  when_full->group(kCommonGroup);
  arguments->when_full_option = when_full;
  arguments->turn.add(*command);
  arguments->model.add_running(*command);
  arguments->model.add_fetch(*command);
  command->callback([arguments, &exit_code] {
    const Result<int> status = run_chat(*arguments);
    exit_code = status.ok() ? *status : report(status.status());
  });
}

}  // namespace ibid
