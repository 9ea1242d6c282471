// ibid chat: a conversation in the terminal, or, from a pipe, with one message per line.
#include <signal.h>
#include <unistd.h>

#include <cerrno>
#include <cstddef>
#include <cstdio>
#include <functional>
#include <iostream>
#include <memory>
#include <optional>
#include <string>
#include <utility>

#include "apps/chat/chat_backend.h"
#include "apps/chat/chat_command.h"
#include "apps/chat/conversation.h"
#include "apps/chat/line_reader.h"
#include "apps/chat/load_engine.h"
#include "apps/chat/remote_backend.h"
#include "apps/chat/sampling_options.h"
#include "apps/chat/screen.h"
#include "apps/chat/turn_arguments.h"
#include "apps/chat/turn_report.h"
#include "apps/command_line/command.h"
#include "apps/terminal/interrupt.h"
#include "apps/terminal/output.h"
#include "base/result.h"
#include "cache/pages/kv_layout.h"
#include "cache/tier/kv_tier.h"
#include "runtime/engine/engine_state.h"
#include "templates/message.h"

namespace ibid {

namespace {

// A conversation for programs: each line of standard input is a message, each line of standard output its answer or an
// error as JSON (turn_report.h). An error does not end the conversation.
struct ChatJson {
  std::string model;  // model name
  // Returns the options of the answer to question number `turn`, counted from 0.
  std::function<TurnOptions(size_t turn)> options;
  // keep_question() saves a named conversation with an unanswered question, keep() saves it after the answer.
  std::function<Status(const ChatBackend& asked)> keep_question;
  std::function<Status()> keep;
  std::optional<std::string> first;  // message that is sent before those of standard input
  bool verbose = false;              // report the speed of each answer on standard error
};

size_t n_answers(const Json& messages) {
  size_t n = 0;
  for (const Json& message : messages) n += is_from(message, Role::kAssistant) ? 1 : 0;
  return n;
}

// Reads the next message: `first`, then non-blank lines of standard input. Returns false at the end of the input.
bool next_message(std::optional<std::string>& first, std::string& message) {
  if (first) {
    message = *std::exchange(first, std::nullopt);
    return true;
  }
  while (std::getline(std::cin, message)) {
    if (!message.empty() && message.back() == '\r') message.pop_back();
    if (message.find_first_not_of(" \t") != std::string::npos) return true;
  }
  return false;
}

// Answers until the end of standard input. Returns the exit status: 0, 1 if a message failed, kInterruptedStatus or
// kReaderGone.
Result<int> run_chat_json(ChatBackend& backend, const ChatJson& chat) {
  signal(SIGPIPE, SIG_IGN);
  AnswerWriter output;
  int exit_code = 0;
  const auto fail = [&](const Status& status) {
    output.write_line(json_to_string(error_json(status)));
    exit_code = report({status.code(), failure_text(status, AnswerPlace::kPipe)});
  };
  std::optional<std::string> first = chat.first;
  for (std::string line; output.error() == 0 && next_message(first, line);) {
    InterruptScope interrupt;
    TurnOptions options = chat.options(n_answers(backend.messages()));
    options.stop = interrupt.token();
    const CompletionIdentity identity = new_completion(chat.model);
    // Ignore errors here: send() reports errors of the message, and chat.keep() reports errors of the file.
    if (Result<std::unique_ptr<ChatBackend>> asked = backend.fork();
        asked.ok() && (*asked)->append(make_message(Role::kUser, line)).ok()) {
      (void)chat.keep_question(**asked);
    }
    const Result<Turn> turn = backend.send(line, options, {});
    if (turn.ok()) {
      const Json json = completion_json(identity, {&*turn, 1}, backend.messages(), nullptr);
      output.write_line(json_to_string(json));
      if (chat.verbose) remark("ibid: " + rates_line(*turn));
    } else {
      fail(turn.status());
    }
    if (const Status kept = chat.keep(); !kept.ok()) fail(kept);
    if (interrupt.interrupted()) return kInterruptedStatus;
  }
  if (output.error() == EPIPE) return kReaderGone;
  if (output.error() != 0) return cannot_write();
  return exit_code;
}

// The destructor waits for pending writes to the cache directory, if there is one, for at most KvTier::kEndingNs, and
// reports a failure.
class CacheEnding {
 public:
  // `screen` must outlive this. Declare this before the conversation, so that it is destroyed after the conversation.
  CacheEnding(std::shared_ptr<Engine> engine, Screen& screen) : engine_(std::move(engine)), screen_(screen) {}
  ~CacheEnding() {
    if (engine_->state().tier() == nullptr) return;
    const Status status = engine_->state().tier()->flush(KvTier::kEndingNs);
    if (status.ok()) return;
    // If the status has no message, there was no memory for a message.
    const std::string reason = status.message().empty() ? "no memory" : status.message();
    screen_.note("not all keys and values were saved to disk; the rest will be prefilled again (" + reason + ")");
  }
  CacheEnding(const CacheEnding&) = delete;
  CacheEnding& operator=(const CacheEnding&) = delete;

 private:
  const std::shared_ptr<Engine> engine_;
  Screen& screen_;
};

struct ChatArguments {
  ModelArguments model;
  TurnArguments turn;
  ResponseFormatArguments form;
  MessageArguments message;
  std::string resume;
  bool json = false;
  const CLI::Option* resume_option = nullptr;
  std::string when_full = "drop";
  const CLI::Option* when_full_option = nullptr;
  std::string url;  // URL of a server; empty: run the model in this process
  std::string api_key_file;
  bool names_model = false;  // --model is on the command line; with --url only this option names the server's model
};

struct Opened {
  std::unique_ptr<ChatBackend> backend;
  TurnOptions turn;
  std::string model;   // model name
  std::string title;   // title line above the conversation
  size_t context = 0;  // context length in tokens; 0: unknown
};

void note_new_conversation(const SavedConversation& kept, Screen& screen) {
  std::string near;
  for (const std::string& name : kept.files().names_near(kept.name())) {
    near += (near.empty() ? " (similar names: '" : ", '") + name + "'";
  }
  screen.note("a new conversation, kept as '" + kept.name() + "'" + near + (near.empty() ? "" : ")"));
}

void note_resumed_conversation(const SavedConversation& kept, const ChatSession& session, Screen& screen) {
  const size_t n_held = session.state().kv().length();
  screen.note("resumed '" + kept.name() + "': " + std::to_string(session.state().messages().size()) + " messages, " +
              std::to_string(session.ids().size()) + " tokens, of them " + std::to_string(n_held) + " read from disk");
  // The model may have another file name than at the last save because the file was only renamed. Then all keys and
  // values are found, except those of an incomplete last page, and the warning below would be wrong.
  const std::string before = kept.saved_with(), now = model_file_name(session.engine()->name());
  const bool is_held = n_held > 0 && n_held + kPagePositions > session.ids().size();
  if (!before.empty() && before != now && !is_held) {
    screen.note("saved with " + before + ": " + now + " prefills all of it again, once");
  } else if (n_held == 0 && session.ids().size() > kPagePositions && session.engine()->state().tier_status().ok()) {
    screen.note(
        "all of it is prefilled again, once: the cache has no keys and values of it for\nthis model file, "
        "--context, --kv and --numerics");
  }
  if (kept.n_branches() > 0) screen.note("other branches: " + std::to_string(kept.n_branches()) + " (/branches)");
}

void note_saved_conversation(const SavedConversation& kept, const ChatSession& session, Screen& screen) {
  if (kept.is_new()) {
    note_new_conversation(kept, screen);
  } else {
    note_resumed_conversation(kept, session, screen);
  }
  const Status& status = session.engine()->state().tier_status();
  if (!status.ok()) screen.note("the cache of keys and values is not used: " + status.message());
}

Result<SessionFiles> session_files() {
  TRY_ASSIGN(std::string directory, sessions_directory());
  return SessionFiles(system_file_ops(), std::move(directory));
}

// Resumes the named conversation or creates a new one.
Result<ChatSession> open_session(const ChatArguments& arguments, const std::shared_ptr<Engine>& engine,
                                 const std::optional<SavedConversation>& kept) {
  const WhenFull policy = *when_full_by_name(arguments.when_full);
  TRY_ASSIGN(std::string system, arguments.turn.system_message());
  SessionOptions options{.system = std::move(system), .when_full = policy};
  if (!kept) return ChatSession::create(engine, std::move(options));
  TRY_ASSIGN(ChatSession session, kept->open(engine, std::move(options)));
  if (arguments.when_full_option->count() > 0) TRY(session.set_when_full(policy));
  return session;
}

// Asks the user and returns the line typed; nullopt: Ctrl-C or end of input.
std::optional<std::string> ask_person(LineReader& reader, Screen& screen, const std::string& question) {
  screen.note(question);
  std::string line;
  if (reader.read(line, false) != LineReader::Outcome::kLine) return std::nullopt;
  return line;
}

// Runs the conversation. Returns the exit status: 0, 1 if a message failed, or kInterruptedStatus.
Result<int> run_conversation(Conversation& conversation, LineReader& reader, Screen& screen, bool interactive,
                             const std::optional<std::string>& first) {
  using Next = Conversation::Next;
  Next next = first ? conversation.open_with(*first) : Next::kGoOn;
  for (std::string line; next != Next::kLeave && !screen.writing_failed();) {
    if (next == Next::kInterrupted && !interactive) return kInterruptedStatus;
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

// As run_conversation(), with --json.
Result<int> run_opened_as_json(Opened opened, std::optional<SavedConversation> kept, ChatJson chat) {
  Branches branches(std::move(opened.backend));
  if (kept) kept->add_branches(branches);
  chat.model = opened.model;
  chat.options = [&](size_t turn) {
    TurnOptions of_turn = opened.turn;
    if (of_turn.sampler.seed) *of_turn.sampler.seed += kSeedsOfATurn * turn;
    return of_turn;
  };
  chat.keep_question = [&](const ChatBackend& asked) { return kept ? kept->save_question(asked) : Status(); };
  chat.keep = [&] { return kept ? kept->save(branches) : Status(); };
  return run_chat_json(branches.now(), chat);
}

AnswerReader answer_reader(const ChatArguments& arguments) {
  return arguments.json ? AnswerReader::kProgram : AnswerReader::kPerson;
}

void note_model(const ChatArguments& arguments, const Opened& opened, bool interactive, Screen& screen) {
  if (arguments.message.verbose) remark(settings_text(opened.model, opened.context, opened.turn), RemarkStyle::kDim);
  if (!interactive) return;
  screen.note(opened.title + (opened.context > 0 ? " · context " + std::to_string(opened.context) : "") + " · /help");
}

// Runs an opened conversation in one of three modes: terminal, pipe or JSON.
Result<int> run_opened(const ChatArguments& arguments, Opened opened, std::optional<SavedConversation> kept,
                       LineReader& reader, Screen& screen) {
  TRY_ASSIGN(const std::optional<std::string> first, arguments.message.message());
  const bool verbose = arguments.message.verbose;
  if (arguments.json)
    return run_opened_as_json(std::move(opened), std::move(kept), {.first = first, .verbose = verbose});
  const bool interactive = isatty(STDIN_FILENO) == 1;
  ConversationOptions options{opened.turn, session_files(), std::move(kept), interactive, verbose, {}};
  if (interactive) {
    reader.set_completion(completion_words());
    options.ask_person = [&](const std::string& question) { return ask_person(reader, screen, question); };
  }
  Conversation conversation(std::move(opened.backend), std::move(options), screen);
  if (interactive) conversation.settings().show_last_exchange();
  return run_conversation(conversation, reader, screen, interactive, first);
}

Result<Opened> open_server(const ChatArguments& arguments) {
  TRY_ASSIGN(ServerAddress address, parse_server_address(arguments.url));
  TRY_ASSIGN(address.key, read_client_key(arguments.api_key_file));
  const std::string name = arguments.names_model ? arguments.model.model : "";
  TRY_ASSIGN(const std::string system, arguments.turn.system_message());
  TRY_ASSIGN(Json fields, arguments.form.fields());
  TRY_ASSIGN(const std::shared_ptr<RemoteModel> model, find_remote_model(std::move(address), name));
  Opened opened{.backend = std::make_unique<RemoteBackend>(model, system),
                .turn = arguments.turn.given_options(),
                .model = model->model.name,
                .title = model->name(),
                .context = model->model.context};
  model->fields = std::move(fields);
  for (const SamplingOption* option : arguments.turn.given()) model->given.insert(option);
  if (answer_reader(arguments) == AnswerReader::kPerson) limit_answers_for_people(*model, opened.turn);
  return opened;
}

Result<int> run_chat_with_server(const ChatArguments& arguments, bool interactive) {
  TRY(arguments.message.message().status());
  LineReader reader(interactive);
  TRY_ASSIGN(Opened opened, open_server(arguments));
  Screen screen(interactive ? AnswerPlace::kChat : AnswerPlace::kPipe);
  note_model(arguments, opened, interactive, screen);
  return run_opened(arguments, std::move(opened), std::nullopt, reader, screen);
}

Result<int> run_chat(const ChatArguments& arguments) {
  signal(SIGPIPE, SIG_IGN);  // SIGPIPE is not needed, because writing detects a closed standard output
  const bool interactive = isatty(STDIN_FILENO) == 1 && !arguments.json;
  if (!arguments.url.empty()) return run_chat_with_server(arguments, interactive);
  std::optional<SavedConversation> kept;
  std::string cache_directory;
  if (arguments.resume_option->count() > 0) {
    TRY_ASSIGN(SessionFiles files, session_files());
    TRY_ASSIGN(kept, SavedConversation::take(std::move(files), arguments.resume));
    TRY_ASSIGN(cache_directory, kv_cache_directory());
  }
  TRY(arguments.message.message().status());
  // Reject an invalid response format before the model is loaded.
  TRY_ASSIGN(const std::optional<Grammar> form, arguments.form.grammar());
  TRY_ASSIGN(const std::string path, find_model(arguments.model, interactive));
  // Create the reader before the model is loaded, so that text typed meanwhile is kept, without echo, for the first
  // prompt.
  LineReader reader(interactive);
  TRY_ASSIGN(const auto engine, load_engine(path, arguments.model, cache_directory));
  TRY_ASSIGN(ChatSession session, open_session(arguments, engine, kept));
  Opened opened{.backend = nullptr,
                .turn = arguments.turn.turn_options(*engine, answer_reader(arguments)),
                .model = model_name(*engine),
                .title = model_file_name(engine->name()),
                .context = engine->max_seq_len()};
  if (form) opened.turn.constraint = engine->state().constraints().make(*form);
  Screen screen(interactive ? AnswerPlace::kChat : AnswerPlace::kPipe);
  note_model(arguments, opened, interactive, screen);
  if (kept && !arguments.json) note_saved_conversation(*kept, session, screen);
  opened.backend = std::make_unique<LocalBackend>(std::move(session));
  std::optional<CacheEnding> cache_ending;
  if (!arguments.json) cache_ending.emplace(engine, screen);
  return run_opened(arguments, std::move(opened), std::move(kept), reader, screen);
}

void add_url(CLI::App& command, ChatArguments& arguments) {
  const auto take = [&command, &arguments](const std::string& url) {
    arguments.url = plain_text_argument(url);
    if (arguments.url.empty()) throw CLI::ValidationError("--url", "is empty");
    arguments.names_model = command.get_option("--model")->count() > 0;
  };
  CLI::Option* url = command.add_option_function<std::string>(
      "--url", take,
      "talk to a server (`ibid serve`, or another with OpenAI chat completions); --model is then its name there");
  url->type_name("URL")->group(kServerGroup);
  for (const char* other : {"--resume", "--when-full", "--threads", "--context", "--kv", "--numerics", "--fetch"}) {
    url->excludes(command.get_option(other));
  }
  add_text_option(command, "--api-key-file", arguments.api_key_file,
                  "the server's key: the first of the file, or IBID_API_KEY")
      ->type_name("FILE")
      ->needs(url)
      ->group(kServerGroup);
}

}  // namespace

void add_chat(CLI::App& root, int& exit_code) {
  auto arguments = std::make_shared<ChatArguments>();
  CLI::App* command = root.add_subcommand("chat", "a conversation in the terminal; from a pipe, one message per line");
  arguments->model.add_model(*command, false);
  CLI::Option* resume =
      add_text_option(*command, "--resume", arguments->resume, "keep the conversation under this name, or resume it");
  resume->type_name("NAME")->group(kCommonGroup);
  arguments->resume_option = resume;
  CLI::Option* when_full = command->add_option(
      "--when-full", arguments->when_full,
      "when the context is full: report an error, drop the oldest turns, cut the middle of long messages");
  when_full->type_name("error|drop|cut")->check(one_of({"error", "drop", "cut"}))->capture_default_str();
  when_full->group(kCommonGroup);
  arguments->when_full_option = when_full;
  command
      ->add_flag("--json", arguments->json,
                 "for programs: one message per input line, one JSON object per output line (docs/json.md)")
      ->group(kCommonGroup);
  arguments->message.add(*command, "a first message; the chat continues after its answer",
                         "a file whose text is put before the first message (may be repeated)");
  arguments->message.add_verbose(*command);
  arguments->form.add(*command);
  arguments->turn.add(*command);
  arguments->model.add_running(*command);
  arguments->model.add_fetch(*command);
  add_url(*command, *arguments);
  command->callback([arguments, &exit_code] {
    const Result<int> status = run_chat(*arguments);
    if (!status.ok() && arguments->json) std::puts(json_to_string(error_json(status.status())).c_str());
    exit_code = status.ok() ? *status : report(status.status());
  });
}

}  // namespace ibid
