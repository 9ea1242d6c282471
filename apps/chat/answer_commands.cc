#include "apps/chat/conversation.h"

#include <algorithm>
#include <random>
#include <utility>

#include "apps/chat/chat_command.h"
#include "apps/chat/screen.h"
#include "apps/sessions/message_text.h"
#include "apps/terminal/interrupt.h"

namespace ibid {
namespace {

// Returns "812 bytes, 190 tokens".
std::string size_text(const AttachedFile& file, const ChatBackend& backend) {
  const std::optional<size_t> n_tokens = backend.count_tokens(file.text);
  return std::to_string(file.text.size()) + " bytes" + (n_tokens ? ", " + std::to_string(*n_tokens) + " tokens" : "");
}

}  // namespace

AnswerCommands::Next AnswerCommands::message(std::string_view text) {
  Result<MessageWithFiles> message = find_attached_files(now().files(), text);
  if (!message.ok()) {
    note(message.status().message() + "; nothing was sent");
    return Next::kGoOn;
  }
  message->files.insert(message->files.begin(), state_.attached.begin(), state_.attached.end());
  for (const AttachedFile& file : message->files) {
    note(file.path + " is attached (" + size_text(file, now()) + ")");
  }
  bool sent = false;
  const Next next = send(message_with_files(*message), "the last message and its answer", sent);
  if (sent) state_.attached.clear();
  return next;
}

AnswerCommands::Next AnswerCommands::send(const std::string& text, const std::string& what, bool& sent) {
  const size_t n_before = messages().size();
  std::unique_ptr<ChatBackend> before = copy_if_context_may_overflow(text.size());
  keep_question(text);
  bool interrupted = false;
  const std::optional<Turn> turn = answer(
      n_before, 0,
      [&](const TurnOptions& options, const TurnCallback& show) { return now().send(text, options, show); },
      interrupted);
  sent = turn.has_value();
  if (sent && turn->left_out.any() && before != nullptr) {
    state_.branches.was_rewritten(std::move(before), what);
  } else if (sent && !what.empty()) {
    state_.branches.has_grown(n_before, what);
  }
  state_.save();
  return interrupted ? Next::kInterrupted : Next::kGoOn;
}

std::optional<Turn> AnswerCommands::answer(size_t question, size_t attempt, const AskModel& ask, bool& interrupted) {
  InterruptScope interrupt;
  TurnOptions options = options_of(question, attempt);
  options.stop = interrupt.token();
  bool separated = state_.commands || n_answers_shown_ == 0;
  const size_t n_before = n_turns_before(question);
  state_.screen.wait("reading");
  Result<Turn> turn = ask(options, [&](const TurnEvent& event) {
    // Separate answers by an empty line if messages come from a pipe, because an answer may have several lines.
    if (event.kind == TurnEvent::Kind::kText && !std::exchange(separated, true)) {
      state_.screen.show({.kind = TurnEvent::Kind::kText, .text = "\n"});
    }
    state_.screen.show(event);
  });
  interrupted = interrupt.interrupted();
  if (!turn.ok()) {
    state_.screen.break_off();
    fail_turn(turn.status());
    return std::nullopt;
  }
  ++n_answers_shown_;
  state_.screen.finish(*turn, n_before + 1, options.max_tokens);
  if (turn->lost_prefix) note(turn->lost_prefix->to_string());
  if (state_.verbose) note(rates_line(*turn));
  return *std::move(turn);
}

TurnOptions AnswerCommands::options_of(size_t question, size_t attempt) const {
  TurnOptions options = state_.turn_options;
  if (options.sampler.seed) *options.sampler.seed += kSeedsOfATurn * n_turns_before(question) + attempt;
  return options;
}

size_t AnswerCommands::n_turns_before(size_t message) const {
  size_t n = 0;
  for (size_t i = 0; i < std::min(message, messages().size()); ++i) {
    n += is_from(messages()[i], Role::kAssistant) ? 1 : 0;
  }
  return n;
}

// Returns an attempt number that no known answer to the question has used.
size_t AnswerCommands::next_attempt(size_t question) {
  if (!state_.turn_options.sampler.seed) return 0;
  size_t attempt = state_.branches.n_answers_to(question + 1);
  if (attempted_question_ == question) attempt = std::max(attempt, last_attempt_ + 1);
  attempted_question_ = question;
  last_attempt_ = attempt;
  return attempt;
}

std::unique_ptr<ChatBackend> AnswerCommands::copy_if_context_may_overflow(size_t n_bytes) {
  if (!now().may_overflow_context(n_bytes)) return nullptr;
  Result<std::unique_ptr<ChatBackend>> copy = now().fork();
  return copy.ok() ? *std::move(copy) : nullptr;
}

// Appends to the last answer. The shorter answer stays as a branch.
AnswerCommands::Next AnswerCommands::continue_answer(std::string_view) {
  if (messages().empty() || !is_from(messages().back(), Role::kAssistant)) {
    note("there is no answer to continue");
    return Next::kGoOn;
  }
  const size_t question = last_from(messages(), Role::kUser);
  Result<std::unique_ptr<ChatBackend>> next = now().fork();
  if (!next.ok()) {
    state_.fail(next.status());
    return Next::kGoOn;
  }
  bool interrupted = false;
  if (answer(
          question, next_attempt(question),
          [&](const TurnOptions& options, const TurnCallback& show) { return (*next)->continue_answer(options, show); },
          interrupted)) {
    state_.branches.replace(*std::move(next), "/continue");
    state_.save();
  }
  return interrupted ? Next::kInterrupted : Next::kGoOn;
}

AnswerCommands::Next AnswerCommands::regenerate(std::string_view) {
  if (messages().empty()) {
    note("nothing to answer yet");
    return Next::kGoOn;
  }
  bool interrupted = false;
  if (is_from(messages().back(), Role::kUser)) {
    const size_t n_before = messages().size();
    if (answer(
            n_before - 1, 0,
            [&](const TurnOptions& options, const TurnCallback& show) { return now().answer(options, show); },
            interrupted)) {
      state_.branches.has_grown(n_before, "the answer");
      state_.save();
    }
    return interrupted ? Next::kInterrupted : Next::kGoOn;
  }
  const size_t question = last_from(messages(), Role::kUser);
  Result<std::unique_ptr<ChatBackend>> next = now().fork();
  if (!next.ok()) {
    state_.fail(next.status());
    return Next::kGoOn;
  }
  if (answer(
          question, next_attempt(question),
          [&](const TurnOptions& options, const TurnCallback& show) { return (*next)->regenerate(options, show); },
          interrupted)) {
    state_.branches.replace(*std::move(next), "/regen");
    state_.save();
  }
  return interrupted ? Next::kInterrupted : Next::kGoOn;
}

// Parses "[N] TEXT"; N defaults to the last user message.
AnswerCommands::Next AnswerCommands::edit(std::string_view argument) {
  size_t message = last_from(messages(), Role::kUser);
  std::string_view text = argument;
  if (const std::optional<size_t> number = leading_number(text); number) {
    message = *number;
  } else {
    text = argument;
  }
  if (message >= messages().size() || !is_from(messages()[message], Role::kUser)) {
    note("none of your messages has this number (/history shows them)");
    return Next::kGoOn;
  }
  if (text.empty()) {
    note("/edit [N] TEXT: the new text of the message (/history shows the numbers)");
    return Next::kGoOn;
  }
  // Go to the edited message. The messages from there on stay as a branch, which is saved before the current branch is
  // overwritten.
  Branches& branches = state_.branches;
  if (const Status status = branches.go({branches.here().branch, message}, "/edit"); !status.ok()) {
    state_.fail(status);
    return Next::kGoOn;
  }
  state_.save();
  bool sent = false;
  const Next next = send(std::string(text), "", sent);
  if (!sent) {
    state_.branches.take_back();
    state_.save();
  }
  return next;
}

AnswerCommands::Next AnswerCommands::several_answers(std::string_view argument) {
  const std::optional<size_t> n = leading_number(argument);
  if (!n || argument.empty()) {
    note("/answers N TEXT: the number of answers, and the message");
    return Next::kGoOn;
  }
  const size_t n_before = messages().size();
  const std::string text(argument);
  std::unique_ptr<ChatBackend> before = copy_if_context_may_overflow(text.size());
  keep_question(text);
  InterruptScope interrupt;
  TurnOptions options = options_of(n_before, 0);
  options.stop = interrupt.token();
  if (!options.sampler.seed) options.sampler.seed = std::random_device()();
  AnswersOnScreen shown(state_.screen, std::min(*n, ChatBackend::kMaxAnswers), options, n_turns(messages()) + 1);
  const Result<std::vector<Turn>> turns =
      now().send_for_answers(text, *n, options, [&](size_t i, const TurnEvent& event) { shown.show_event(i, event); });
  if (!turns.ok()) {
    shown.give_up();
    fail_turn(turns.status());
  } else {
    if ((*turns)[0].left_out.any() && before != nullptr) {
      state_.branches.was_rewritten(std::move(before), "/answers");
    } else {
      state_.branches.has_grown(n_before, "/answers");
    }
    state_.answers = {state_.branches.here()};
    for (size_t i = 1; i < turns->size(); ++i) {
      Result<std::unique_ptr<ChatBackend>> other =
          now().choose(i).ok() ? now().fork() : Status(ErrorCode::kOutOfMemory, "");
      if (other.ok()) state_.answers.push_back({state_.branches.add(*std::move(other)), SIZE_MAX});
    }
    (void)now().choose(0);
    if (turns->size() > 1) note("the conversation continues with answer 1; /choose K selects another");
  }
  state_.save();
  return interrupt.interrupted() ? Next::kInterrupted : Next::kGoOn;
}

AnswerCommands::Next AnswerCommands::read(std::string_view argument) {
  if (argument.empty()) {
    for (const AttachedFile& file : state_.attached) note(file.path + " is attached to your next message");
    note("/read FILE [TEXT]: attaches the file to TEXT, or to your next message");
    return Next::kGoOn;
  }
  const FirstWord word = take_word(argument);
  Result<AttachedFile> file = read_attached_file(now().files(), word.word);
  if (!file.ok()) {
    note(file.status().message());
    return Next::kGoOn;
  }
  const std::string size = size_text(*file, now());
  state_.attached.push_back(*std::move(file));
  if (!word.rest.empty()) return message(word.rest);
  note(word.word + ": " + size + ", attached to your next message");
  return Next::kGoOn;
}

void AnswerCommands::keep_question(const std::string& text) {
  if (!state_.kept) return;
  // Ignore errors of saving the question here: the turn reports errors of the text, and the save() after the turn
  // reports errors of the file.
  Result<std::unique_ptr<ChatBackend>> copy = now().fork();
  if (!copy.ok() || !(*copy)->append(make_message(Role::kUser, text)).ok()) return;
  (void)state_.kept->save_question(**copy);
}

void AnswerCommands::fail_turn(const Status& status) {
  if (status.code() != ErrorCode::kCancelled) return state_.fail(status);
  std::string text = "stopped before the first word; nothing has changed";
  for (const AttachedFile& file : state_.attached) text += ", and " + file.path + " is still attached";
  note(text);
}

}  // namespace ibid
