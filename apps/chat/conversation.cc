#include "apps/chat/conversation.h"

#include <algorithm>
#include <filesystem>
#include <memory>
#include <random>
#include <system_error>
#include <utility>

#include "apps/chat/answers_on_screen.h"
#include "apps/chat/chat_command.h"
#include "apps/chat/command_words.h"
#include "apps/chat/interrupt.h"
#include "apps/chat/turn_seeds.h"
#include "apps/command_line/nearest_names.h"
#include "apps/sessions/message_text.h"

namespace ibid {
namespace {

constexpr size_t kMaxBranches = 100;
// What the template writes around a message, generously, in tokens.
constexpr size_t kAroundAMessage = 256;

Status no_such_command(std::string_view name) {
  std::string message = std::string(name) + ": there is no such command (/help lists them)";
  std::vector<std::string> names;
  for (const ChatCommand& command : chat_commands()) names.emplace_back(command.name);
  std::string near;
  for (const std::string& other : nearest_names(name, names)) near += (near.empty() ? "" : ", ") + other;
  if (!near.empty()) message = std::string(name) + ": there is no such command; there is " + near;
  return {ErrorCode::kInvalidArgument, message};
}

// "/etc/passwd": a path, and so the beginning of a message.
bool looks_like_a_path(std::string_view word) {
  std::error_code error;
  return word.find('/', 1) != std::string_view::npos || std::filesystem::exists(std::string(word), error);
}

}  // namespace

Conversation::Conversation(ChatSession session, Options options, Screen& screen)
    : branches_(std::move(session)),
      turn_options_(std::move(options.turn)),
      files_(std::move(options.files)),
      kept_(std::move(options.kept)),
      commands_(options.commands),
      verbose_(options.verbose),
      ask_person_(std::move(options.ask_person)),
      screen_(screen) {
  if (kept_) kept_->add_branches(branches_);
}

Conversation::Next Conversation::handle(const std::string& line) {
  if (trimmed(line).empty()) return Next::kGoOn;
  ++n_lines_;
  if (!commands_) {
    bool said = false;
    return say(line, "", said);
  }
  if (line.starts_with("//")) return message(std::string_view(line).substr(1));
  return line[0] == '/' ? command(line) : message(line);
}

Conversation::Next Conversation::open_with(const std::string& text) {
  constexpr size_t kShown = 160;
  ++n_lines_;
  if (commands_) note("> " + excerpt(text, kShown));
  bool said = false;
  return say(text, commands_ ? "the last message and its answer" : "", said);
}

Conversation::Next Conversation::command(std::string_view line) {
  const size_t end = std::min(line.find_first_of(" \t\n"), line.size());
  const std::string_view name = line.substr(0, end);
  const std::string_view argument = trimmed(line.substr(end));
  const ChatCommand* command = find_chat_command(name);
  if (command == nullptr) {
    if (looks_like_a_path(name)) {
      note(std::string(name) + ": no command; a message that begins with / is written with //, as in /" +
           excerpt(std::string(line), 30));
    } else {
      note(no_such_command(name).message());
    }
    return Next::kGoOn;
  }
  const size_t n_words = count_words(argument);
  if (n_words < command->min_words || n_words > command->max_words) {
    const char* problem = n_words < command->min_words ? "something is missing: " : "too many words: ";
    note(problem + std::string(command->name) + (command->arguments.empty() ? "" : " ") +
         std::string(command->arguments) + " (" + std::string(command->help) + ")");
    return Next::kGoOn;
  }
  return (this->*command->run)(argument);
}

// What a person typed: with the files that it names, and those that wait.
Conversation::Next Conversation::message(std::string_view text) {
  Result<MessageWithFiles> message = find_attached_files(now().engine()->files(), text);
  if (!message.ok()) {
    note(message.status().message() + "; nothing was sent");
    return Next::kGoOn;
  }
  message->files.insert(message->files.begin(), attached_.begin(), attached_.end());
  for (const AttachedFile& file : message->files) {
    note(file.path + " goes along (" + std::to_string(file.text.size()) + " bytes, " +
         std::to_string(now().count_tokens(file.text)) + " tokens)");
  }
  bool said = false;
  const Next next = say(message_with_files(*message), "the last message and its answer", said);
  if (said) attached_.clear();
  return next;
}

Conversation::Next Conversation::say(const std::string& text, const std::string& what, bool& said) {
  const size_t n_before = messages().size();
  std::optional<ChatSession> before = copy_if_room_is_short(text.size());
  keep_question(text);
  bool interrupted = false;
  const std::optional<Turn> turn =
      answer(n_before, 0, [&](const TurnOptions& options, const TurnCallback& show) {
        return now().send(text, options, show);
      }, interrupted);
  said = turn.has_value();
  if (said && turn->left_out.any() && before) {
    branches_.was_rewritten(*std::move(before), what);
  } else if (said && !what.empty()) {
    branches_.has_grown(n_before, what);
  }
  save();
  return interrupted ? Next::kInterrupted : Next::kGoOn;
}

std::optional<Turn> Conversation::answer(size_t question, size_t attempt, const AskModel& ask, bool& interrupted) {
  InterruptScope interrupt;
  TurnOptions options = options_of(question, attempt);
  options.stop = interrupt.token();
  bool separated = commands_ || n_answers_shown_ == 0;
  const size_t n_before = n_turns_before(question);
  screen_.wait("reading");
  Result<Turn> turn = ask(options, [&](const TurnEvent& event) {
    // From a pipe an empty line stands between two answers, for an answer may have several lines.
    if (event.kind == TurnEvent::Kind::kText && !std::exchange(separated, true)) {
      screen_.show({.kind = TurnEvent::Kind::kText, .text = "\n"});
    }
    screen_.show(event);
  });
  interrupted = interrupt.interrupted();
  if (!turn.ok()) {
    fail_turn(turn.status());
    return std::nullopt;
  }
  ++n_answers_shown_;
  screen_.finish(*turn, n_before + 1, options.max_tokens);
  if (turn->lost_prefix) note(turn->lost_prefix->to_string());
  if (verbose_) note(rates_line(*turn));
  return *std::move(turn);
}

TurnOptions Conversation::options_of(size_t question, size_t attempt) const {
  TurnOptions options = turn_options_;
  if (options.sampler.seed) *options.sampler.seed += kSeedsOfATurn * n_turns_before(question) + attempt;
  return options;
}

size_t Conversation::n_turns_before(size_t message) const {
  size_t n = 0;
  for (size_t i = 0; i < std::min(message, messages().size()); ++i) {
    n += is_from(messages()[i], Role::kAssistant) ? 1 : 0;
  }
  return n;
}

// Another one than any answer that is known to it has had.
size_t Conversation::next_attempt(size_t question) {
  if (!turn_options_.sampler.seed) return 0;
  size_t attempt = branches_.n_answers_to(question + 1);
  if (attempted_question_ == question) attempt = std::max(attempt, last_attempt_ + 1);
  attempted_question_ = question;
  last_attempt_ = attempt;
  return attempt;
}

std::optional<ChatSession> Conversation::copy_if_room_is_short(size_t n_bytes) {
  const ChatSession& session = branches_.now();
  // A token has at least a byte.
  if (session.ids().size() + n_bytes + kAroundAMessage <= session.engine()->max_seq_len()) return std::nullopt;
  Result<ChatSession> copy = session.fork();
  if (!copy.ok()) return std::nullopt;
  return *std::move(copy);
}

// --- other answers

Conversation::Next Conversation::regenerate(std::string_view) {
  if (messages().empty()) {
    note("there is nothing to answer yet");
    return Next::kGoOn;
  }
  bool interrupted = false;
  if (is_from(messages().back(), Role::kUser)) {
    const size_t n_before = messages().size();
    if (answer(n_before - 1, 0, [&](const TurnOptions& options, const TurnCallback& show) {
          return now().answer(options, show);
        }, interrupted)) {
      branches_.has_grown(n_before, "the answer");
      save();
    }
    return interrupted ? Next::kInterrupted : Next::kGoOn;
  }
  const size_t question = last_from(messages(), Role::kUser);
  Result<ChatSession> next = now().fork();
  if (!next.ok()) {
    fail(next.status());
    return Next::kGoOn;
  }
  if (answer(question, next_attempt(question), [&](const TurnOptions& options, const TurnCallback& show) {
        return next->regenerate(options, show);
      }, interrupted)) {
    branches_.replace(*std::move(next), "/regen");
    save();
  }
  return interrupted ? Next::kInterrupted : Next::kGoOn;
}

// "[N] TEXT"; without N the last user message is meant.
Conversation::Next Conversation::edit(std::string_view argument) {
  size_t message = last_from(messages(), Role::kUser);
  std::string_view text = argument;
  if (const std::optional<size_t> number = leading_number(text); number) {
    message = *number;
  } else {
    text = argument;
  }
  if (message >= messages().size() || !is_from(messages()[message], Role::kUser)) {
    note("there is no message of yours with this number (/history shows them)");
    return Next::kGoOn;
  }
  if (text.empty()) {
    note("/edit [N] TEXT: what to say in its place (/history shows the numbers)");
    return Next::kGoOn;
  }
  // What comes behind the message stays as a branch, and is in its file before this one's is written over.
  if (const Status status = branches_.go({branches_.here().branch, message}, "/edit"); !status.ok()) {
    fail(status);
    return Next::kGoOn;
  }
  save();
  bool said = false;
  const Next next = say(std::string(text), "", said);
  if (!said) {
    branches_.take_back();
    save();
  }
  return next;
}

Conversation::Next Conversation::several_answers(std::string_view argument) {
  const std::optional<size_t> n = leading_number(argument);
  if (!n || argument.empty()) {
    note("/answers N TEXT: how many, and the message");
    return Next::kGoOn;
  }
  const size_t n_before = messages().size();
  const std::string text(argument);
  std::optional<ChatSession> before = copy_if_room_is_short(text.size());
  keep_question(text);
  InterruptScope interrupt;
  TurnOptions options = options_of(n_before, 0);
  options.stop = interrupt.token();
  if (!options.sampler.seed) options.sampler.seed = std::random_device()();
  AnswersOnScreen shown(screen_, std::min(*n, ChatSession::kMaxAnswers), options, n_turns(messages()) + 1);
  const Result<std::vector<Turn>> turns =
      now().send_for_answers(text, *n, options, [&](size_t i, const TurnEvent& event) { shown.hear(i, event); });
  if (!turns.ok()) {
    shown.give_up();
    fail_turn(turns.status());
  } else {
    if ((*turns)[0].left_out.any() && before) {
      branches_.was_rewritten(*std::move(before), "/answers");
    } else {
      branches_.has_grown(n_before, "/answers");
    }
    answers_ = {branches_.here()};
    for (size_t i = 1; i < turns->size(); ++i) {
      Result<ChatSession> other = now().choose(i).ok() ? now().fork() : Status(ErrorCode::kOutOfMemory, "");
      if (other.ok()) answers_.push_back({branches_.add(*std::move(other)), SIZE_MAX});
    }
    (void)now().choose(0);
    if (turns->size() > 1) note("the conversation goes on with answer 1; /choose K takes another");
  }
  save();
  return interrupt.interrupted() ? Next::kInterrupted : Next::kGoOn;
}

// --- keeping

void Conversation::keep_question(const std::string& text) {
  if (!kept_) return;
  // What is wrong with the text, the turn itself will say; what is wrong with the file, the save behind it.
  Result<ChatSession> copy = now().fork();
  if (!copy.ok() || !copy->append(make_message(Role::kUser, text)).ok()) return;
  (void)kept_->save_question(*copy);
}

void Conversation::save() {
  if (branches_.changed()) {
    if (const size_t n_gone = branches_.forget_all_but(kMaxBranches); n_gone > 0) {
      note("there are more than " + std::to_string(kMaxBranches) + " branches: the oldest is forgotten");
    }
  }
  if (!kept_) return branches_.is_kept();
  if (const Status status = kept_->save(branches_); !status.ok()) {
    any_failed_ = true;
    note("the conversation could not be kept: " + status.message());
  }
}

void Conversation::fail_turn(const Status& status) {
  if (status.code() == ErrorCode::kCancelled) return note("stopped before the first word; nothing has changed");
  fail(status);
}

void Conversation::fail(const Status& status) {
  any_failed_ = true;
  const std::string which = commands_ ? "" : "message " + std::to_string(n_lines_) + ": ";
  note("ibid: " + which + failure_text(status, commands_ ? AnswerPlace::kChat : AnswerPlace::kPipe));
}

}  // namespace ibid
