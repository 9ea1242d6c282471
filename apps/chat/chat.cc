// ibid chat: a conversation in the terminal; from a pipe, one message a line.
#include <signal.h>
#include <unistd.h>

#include <cstdio>
#include <filesystem>
#include <memory>
#include <optional>
#include <string>

#include "apps/chat/cache_ending.h"
#include "apps/chat/chat_command.h"
#include "apps/chat/chat_json.h"
#include "apps/chat/conversation.h"
#include "apps/chat/line_reader.h"
#include "apps/chat/load_engine.h"
#include "apps/chat/message_arguments.h"
#include "apps/chat/turn_arguments.h"
#include "apps/chat/turn_json.h"
#include "apps/chat/turn_seeds.h"
#include "apps/chat/when_full.h"
#include "apps/command_line/command.h"
#include "apps/command_line/option_kinds.h"
#include "apps/terminal/remark.h"
#include "cache/pages/kv_layout.h"

namespace ibid {

namespace {

struct ChatArguments {
  ModelArguments model;
  TurnArguments turn;
  MessageArguments message;
  std::string resume;
  bool json = false;
  const CLI::Option* resume_option = nullptr;
  std::string when_full = "drop";
  const CLI::Option* when_full_option = nullptr;
};

void tell_what_begins(const KeptConversation& kept, Screen& screen) {
  std::string near;
  for (const std::string& name : kept.files().names_near(kept.name())) {
    near += (near.empty() ? " (there is '" : ", '") + name + "'";
  }
  screen.note("a new conversation, kept as '" + kept.name() + "'" + near + (near.empty() ? "" : ")"));
}

void tell_what_goes_on(const KeptConversation& kept, const ChatSession& session, Screen& screen) {
  const size_t n_held = session.kv().length();
  screen.note("'" + kept.name() + "' goes on: " + std::to_string(session.messages().size()) + " messages, " +
              std::to_string(session.ids().size()) + " tokens, of them " + std::to_string(n_held) + " read from disk");
  if (n_held == 0 && session.ids().size() > kPagePositions && session.engine()->tier_status().ok()) {
    screen.note("all of it is read again, once: the cache has nothing of it for this model\nfile, --context, --kv and "
                "--numerics");
  }
  if (kept.n_branches() > 0) screen.note("other branches: " + std::to_string(kept.n_branches()) + " (/branches)");
}

void tell_what_is_kept(const KeptConversation& kept, const ChatSession& session, Screen& screen) {
  if (kept.is_new()) {
    tell_what_begins(kept, screen);
  } else {
    tell_what_goes_on(kept, session, screen);
  }
  const Status& status = session.engine()->tier_status();
  if (!status.ok()) screen.note("the cache of keys and values is not used: " + status.message());
}

Result<SessionFiles> session_files() {
  TRY_ASSIGN(std::string directory, sessions_directory());
  return SessionFiles(system_file_ops(), std::move(directory));
}

// Makes the conversation go on, or begin, as the arguments say.
Result<ChatSession> open_session(const ChatArguments& arguments, const std::shared_ptr<Engine>& engine,
                                 const std::optional<KeptConversation>& kept) {
  const WhenFull policy = *when_full_by_name(arguments.when_full);
  TRY_ASSIGN(std::string system, arguments.turn.system_message());
  SessionOptions options{.system = std::move(system), .when_full = policy};
  if (!kept) return ChatSession::create(engine, std::move(options));
  TRY_ASSIGN(ChatSession session, kept->open(engine, std::move(options)));
  if (arguments.when_full_option->count() > 0) TRY(session.set_when_full(policy));
  return session;
}

// What a person who is asked says; nullopt: Ctrl-C, or the end of the input.
std::optional<std::string> ask_person(LineReader& reader, Screen& screen, const std::string& question) {
  screen.note(question);
  std::string line;
  if (reader.read(line, false) != LineReader::Outcome::kLine) return std::nullopt;
  return line;
}

// 0, or the exit status of what ended it.
Result<int> lead(Conversation& conversation, LineReader& reader, Screen& screen, bool interactive,
                 const std::optional<std::string>& first) {
  using Next = Conversation::Next;
  Next next = first ? conversation.open_with(*first) : Next::kGoOn;
  for (std::string line; next != Next::kLeave && !screen.writing_failed();) {
    if (next == Next::kInterrupted && !interactive) return kInterrupted;
    const LineReader::Outcome outcome = reader.read(line);
    if (outcome == LineReader::Outcome::kEnd) break;
    if (outcome == LineReader::Outcome::kInterrupted) {
      screen.note("/exit or Ctrl-D leaves");
    } else {
      next = conversation.handle(line);
    }
  }
  if (screen.writing_failed()) return cannot_write();
  return !interactive && conversation.any_failed() ? 1 : 0;
}

// The same for a program: messages and answers are lines.
Result<int> lead_in_json(const TurnOptions& options, ChatSession session, std::optional<KeptConversation> kept,
                         ChatJson chat) {
  Branches branches(std::move(session));
  if (kept) kept->add_branches(branches);
  chat.options = [&](size_t turn) {
    TurnOptions of_turn = options;
    if (of_turn.sampler.seed) *of_turn.sampler.seed += kSeedsOfATurn * turn;
    return of_turn;
  };
  chat.keep_question = [&](const ChatSession& asked) { return kept ? kept->save_question(asked) : Status(); };
  chat.keep = [&] { return kept ? kept->save(branches) : Status(); };
  return lead_chat_json(branches.now(), chat);
}

void tell_what_runs(const Engine& engine, Screen& screen) {
  screen.note(std::filesystem::path(engine.name()).filename().string() + " · context " +
              std::to_string(engine.max_seq_len()) + " · /help");
}

Result<int> run_chat(const ChatArguments& arguments) {
  signal(SIGPIPE, SIG_IGN);  // a closed standard output is seen when writing
  const Result<SessionFiles> files = session_files();
  std::optional<KeptConversation> kept;
  std::string cache_directory;
  if (arguments.resume_option->count() > 0) {
    TRY(files.status());
    TRY_ASSIGN(kept, KeptConversation::take(*files, arguments.resume));
    TRY_ASSIGN(cache_directory, kv_cache_directory());
  }
  TRY_ASSIGN(const std::optional<std::string> first, arguments.message.message());
  const bool interactive = isatty(STDIN_FILENO) == 1 && !arguments.json;
  TRY_ASSIGN(const std::string path, find_model(arguments.model, interactive));
  // Before the model is loaded: what is typed meanwhile waits for the prompt, unseen.
  LineReader reader(interactive);
  TRY_ASSIGN(const auto engine, load_engine(path, arguments.model, cache_directory));
  TRY_ASSIGN(ChatSession session, open_session(arguments, engine, kept));
  const AnswerReader answer_reader = arguments.json ? AnswerReader::kProgram : AnswerReader::kPerson;
  const TurnOptions turn = arguments.turn.turn_options(*engine, answer_reader);
  if (arguments.message.verbose) remark(settings_text(*engine, turn), RemarkStyle::kDim);
  if (arguments.json) {
    ChatJson chat{.first = first, .verbose = arguments.message.verbose};
    return lead_in_json(turn, std::move(session), std::move(kept), std::move(chat));
  }

  Screen screen(interactive ? AnswerPlace::kChat : AnswerPlace::kPipe);
  reader.set_completion(completion_words());
  if (interactive) tell_what_runs(*engine, screen);
  if (kept) tell_what_is_kept(*kept, session, screen);
  Conversation::Options options{turn, files, std::move(kept), interactive, arguments.message.verbose, {}};
  if (interactive) {
    options.ask_person = [&](const std::string& question) { return ask_person(reader, screen, question); };
  }
  const CacheEnding cache_ending(engine, screen);
  Conversation conversation(std::move(session), std::move(options), screen);
  if (interactive) conversation.show_last_exchange();
  return lead(conversation, reader, screen, interactive, first);
}

}  // namespace

void add_chat(CLI::App& root, int& exit_code) {
  auto arguments = std::make_shared<ChatArguments>();
  CLI::App* command = root.add_subcommand("chat", "a conversation in the terminal; from a pipe one message a line");
  arguments->model.add_model(*command, false);
  CLI::Option* resume = add_text_option(*command, "--resume", arguments->resume,
                                          "keep the conversation under this name, and go on where it stopped");
  resume->type_name("NAME")->group(kCommonGroup);
  arguments->resume_option = resume;
  CLI::Option* when_full = command->add_option(
      "--when-full", arguments->when_full,
      "what a full context does: an error, drop the oldest turns, cut the middle of the newest message");
  when_full->type_name("error|drop|cut")->check(one_of({"error", "drop", "cut"}))->capture_default_str();
  when_full->group(kCommonGroup);
  arguments->when_full_option = when_full;
  command
      ->add_flag("--json", arguments->json,
                 "for programs: a message a line in, a JSON object a line out (docs/json.md)")
      ->group(kCommonGroup);
  arguments->message.add(*command, "a first message; the chat goes on behind its answer",
                         "a file whose text stands before the first message (may be repeated)");
  arguments->message.add_verbose(*command);
  arguments->turn.add(*command);
  arguments->model.add_running(*command);
  arguments->model.add_fetch(*command);
  command->callback([arguments, &exit_code] {
    const Result<int> status = run_chat(*arguments);
    if (!status.ok() && arguments->json) std::puts(json_to_string(error_json(status.status())).c_str());
    exit_code = status.ok() ? *status : report(status.status());
  });
}

}  // namespace ibid
