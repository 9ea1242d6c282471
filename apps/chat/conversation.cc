#include "apps/chat/conversation.h"

#include <algorithm>
#include <charconv>
#include <cstdio>
#include <optional>

#include "apps/chat/interrupt.h"
#include "base/utf8.h"
#include "cache/lru_kv_cache_store.h"
#include "model/memory_plan.h"

namespace ibid {

namespace {

constexpr const char* kHelp =
    "/regen          answer the last message again\n"
    "/undo           take the last message and its answer back\n"
    "/edit [N] TEXT  say TEXT in place of message N (your last one), and go on from there\n"
    "/answers N TEXT N answers to TEXT; /choose K goes on with the Kth\n"
    "/fork           go on in a copy of the conversation; /back returns to where it was forked\n"
    "/history        the messages, with their numbers\n"
    "/pin N          message N stays when a full context drops old turns (--when-full drop)\n"
    "/system TEXT    begin anew with a system message\n"
    "/clear          forget the conversation, but for the system message\n"
    "/stats          tokens, times and memory so far\n"
    "/exit           leave (or Ctrl-D)\n"
    "Ctrl-C stops an answer and keeps what was said. A line ending in \\ goes on in the next.";

std::string_view trimmed(std::string_view text) {
  const size_t begin = text.find_first_not_of(" \t");
  if (begin == std::string_view::npos) return {};
  return text.substr(begin, text.find_last_not_of(" \t") - begin + 1);
}

// Takes a number and the blanks behind it off the front of `text`. One that is too large is the largest.
std::optional<size_t> leading_number(std::string_view& text) {
  size_t value = 0;
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), value);
  const auto length = static_cast<size_t>(end - text.data());
  if (error == std::errc::result_out_of_range) value = SIZE_MAX;
  if (error == std::errc::invalid_argument || (length < text.size() && text[length] != ' ')) return std::nullopt;
  text = trimmed(text.substr(length));
  return value;
}

}  // namespace

Conversation::Conversation(ChatSession session, TurnOptions options, std::string save_path, Screen& screen)
    : session_(std::move(session)), options_(std::move(options)), save_path_(std::move(save_path)), screen_(screen) {}

Conversation::Next Conversation::handle(const std::string& line, bool commands) {
  if (trimmed(line).empty()) return Next::kGoOn;
  if (!commands || line[0] != '/') {
    return answer([&](const TurnOptions& options, const TurnCallback& show) {
      return session_.send(line, options, show);
    });
  }
  const size_t space = line.find(' ');
  const std::string_view name = std::string_view(line).substr(0, space);
  return command(name, space == std::string::npos ? std::string_view() : trimmed(std::string_view(line).substr(space)));
}

Conversation::Next Conversation::command(std::string_view name, std::string_view argument) {
  if (name == "/exit" || name == "/quit") return Next::kLeave;
  if (name == "/regen") {
    return answer([&](const TurnOptions& options, const TurnCallback& show) {
      return session_.regenerate(options, show);
    });
  }
  if (name == "/edit") return edit(argument);
  if (name == "/answers") return several_answers(argument);
  if (name == "/help") {
    screen_.note(kHelp);
  } else if (name == "/stats") {
    show_stats();
  } else if (name == "/history") {
    show_history();
  } else if (name == "/pin") {
    pin(argument);
  } else if (name == "/choose") {
    choose(argument);
  } else if (name == "/undo") {
    undo();
  } else if (name == "/fork") {
    fork();
  } else if (name == "/back") {
    back();
  } else if (name == "/clear" || name == "/system") {
    const Status status = name == "/clear" ? session_.reset() : session_.set_system(argument);
    if (!status.ok()) fail(status);
    if (status.ok()) {
      screen_.note(name == "/clear"     ? "a new conversation"
                   : argument.empty() ? "a new conversation without a system message"
                                      : "a new conversation with this system message");
      save();
    }
  } else {
    screen_.note("no such command: " + std::string(name) + " (/help lists them)");
  }
  return Next::kGoOn;
}

Conversation::Next Conversation::answer(const Ask& ask) {
  InterruptScope interrupt;
  TurnOptions options = options_;
  options.stop = interrupt.token();
  const Result<Turn> turn = ask(options, [&](const TurnEvent& event) { screen_.show(event); });
  if (turn.ok()) {
    screen_.finish(*turn, n_turns());
    if (turn->lost_prefix) screen_.note(turn->lost_prefix->to_string());
    save();
  } else {
    fail_turn(turn.status());
  }
  return interrupt.interrupted() ? Next::kInterrupted : Next::kGoOn;
}

// "[N] TEXT"; without N the last user message is meant.
Conversation::Next Conversation::edit(std::string_view argument) {
  const Json& messages = session_.messages();
  size_t message = messages.size();
  while (message > 0 && messages[message - 1].value("role", "") != "user") --message;
  std::optional<size_t> number;
  std::string_view text = argument;
  if (number = leading_number(text); number) {
    message = *number;
    if (message >= messages.size() || messages[message].value("role", "") != "user") {
      screen_.note("there is no message of yours with this number (/history shows them)");
      return Next::kGoOn;
    }
    ++message;
  } else {
    text = argument;
  }
  if (text.empty() || message == 0) {
    screen_.note("/edit [N] TEXT: what to say instead (/history shows the numbers)");
    return Next::kGoOn;
  }
  return answer([&](const TurnOptions& options, const TurnCallback& show) {
    return session_.edit(message - 1, text, options, show);
  });
}

Conversation::Next Conversation::several_answers(std::string_view argument) {
  const std::optional<size_t> n = leading_number(argument);
  if (!n || argument.empty()) {
    screen_.note("/answers N TEXT: how many, and the message");
    return Next::kGoOn;
  }
  InterruptScope interrupt;
  TurnOptions options = options_;
  options.stop = interrupt.token();
  // They come all at once: each is shown when all are there.
  const Result<std::vector<Turn>> turns = session_.send_for_answers(argument, *n, options);
  if (!turns.ok()) {
    fail_turn(turns.status());
  } else {
    for (size_t i = 0; i < turns->size(); ++i) {
      screen_.note("--- answer " + std::to_string(i + 1));
      screen_.show({.kind = TurnEvent::Kind::kText, .text = (*turns)[i].text});
      screen_.finish((*turns)[i], n_turns());
    }
    screen_.note("the conversation goes on with answer 1; /choose K for another");
    save();
  }
  return interrupt.interrupted() ? Next::kInterrupted : Next::kGoOn;
}

void Conversation::choose(std::string_view argument) {
  const std::optional<size_t> answer = leading_number(argument);
  if (!answer || *answer == 0) {
    screen_.note("/choose K: the number of an answer");
    return;
  }
  if (!session_.choose(*answer - 1).ok()) {
    screen_.note("there is no answer " + std::to_string(*answer) + " to choose");
    return;
  }
  screen_.note("the conversation goes on with answer " + std::to_string(*answer));
  save();
}

void Conversation::pin(std::string_view argument) {
  const std::optional<size_t> message = leading_number(argument);
  if (!message) {
    screen_.note("/pin N: the number of a message (/history shows them)");
    return;
  }
  if (const Status status = session_.pin(*message); !status.ok()) return fail(status);
  screen_.note("message " + std::to_string(*message) + " stays when old turns are dropped");
  save();
}

void Conversation::show_history() const {
  constexpr size_t kExcerpt = 60;
  size_t number = 0;
  for (const Json& message : session_.messages()) {
    std::string text = message.value("content", Json("")).is_string() ? message.value("content", "") : "...";
    std::replace(text.begin(), text.end(), '\n', ' ');
    if (text.size() > kExcerpt) {
      text.resize(kExcerpt - utf8_incomplete_tail(std::string_view(text).substr(0, kExcerpt)));
      text += "...";
    }
    screen_.note(std::to_string(number++) + "  " + message.value("role", "") + ": " + text);
  }
  if (number == 0) screen_.note("nothing was said yet");
}

void Conversation::save() {
  if (save_path_.empty()) return;
  if (const Status status = session_.save(save_path_); !status.ok()) {
    any_failed_ = true;
    screen_.note("the conversation could not be kept: " + status.message());
  }
}

void Conversation::undo() {
  const Json& messages = session_.messages();
  const bool has_turn = messages.size() >= 2 && messages.back().value("role", "") == "assistant";
  if (!has_turn) {
    screen_.note("there is nothing to take back");
    return;
  }
  if (const Status status = session_.rewind_to(messages.size() - 2); !status.ok()) return fail(status);
  screen_.note("the last message and its answer are gone");
  save();
}

void Conversation::fork() {
  Result<ChatSession> copy = session_.fork();
  if (!copy.ok()) return fail(copy.status());
  parents_.push_back(std::move(session_));
  session_ = *std::move(copy);
  screen_.note("this is branch " + std::to_string(parents_.size()) + "; /back returns to where it was forked");
}

void Conversation::back() {
  if (parents_.empty()) {
    screen_.note("this conversation was not forked");
    return;
  }
  session_ = std::move(parents_.back());
  parents_.pop_back();
  screen_.note("back where it was forked, after turn " + std::to_string(n_turns()));
  save();
}

void Conversation::show_stats() const {
  const Usage& usage = session_.usage();
  const Timings& last = session_.timings();
  Engine& engine = *session_.engine();
  std::fprintf(stderr, "turns            %zu, %zu of %zu positions used\n", n_turns(), session_.ids().size(),
               engine.max_seq_len());
  std::fprintf(stderr, "prompt tokens    %zu, of them %zu found in the cache and %zu read\n", usage.n_prompt,
               usage.n_cached, usage.n_prefilled);
  std::fprintf(stderr, "said tokens      %zu, of them %zu as guessed (%zu guesses)\n", usage.n_decoded,
               usage.n_accepted, usage.n_drafted);
  std::fprintf(stderr, "last turn        first token %.1f ms (render %.2f, tokenize %.2f, match %.2f, prefill %.1f), "
                       "%.0f tok/s\n",
               last.ttft_ms, last.render_ms, last.tokenize_ms, last.match_ms, last.prefill_ms, last.decode_tps);
  std::fprintf(stderr, "keys and values  %s in use of %s\n", format_bytes(engine.pool().bytes_in_use()).c_str(),
               format_bytes(engine.pool().budget_bytes()).c_str());
}

void Conversation::fail_turn(const Status& status) {
  if (status.code() != ErrorCode::kCancelled) return fail(status);
  screen_.note("stopped before the first word; nothing has changed");
}

void Conversation::fail(const Status& status) {
  any_failed_ = true;
  screen_.note("ibid: " + status.message());
}

size_t Conversation::n_turns() const {
  size_t n = 0;
  for (const Json& message : session_.messages()) n += message.value("role", "") == "assistant" ? 1 : 0;
  return n;
}

}  // namespace ibid
