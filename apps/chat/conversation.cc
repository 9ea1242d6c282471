#include "apps/chat/conversation.h"

#include <cstdio>

#include "apps/chat/interrupt.h"
#include "cache/lru_kv_cache_store.h"
#include "model/memory_plan.h"

namespace ibid {

namespace {

constexpr const char* kHelp =
    "/regen          answer the last message again\n"
    "/undo           take the last message and its answer back\n"
    "/fork           go on in a copy of the conversation; /back returns to where it was forked\n"
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

}  // namespace

Conversation::Conversation(ChatSession session, TurnOptions options, Screen& screen)
    : session_(std::move(session)), options_(std::move(options)), screen_(screen) {}

Conversation::Next Conversation::handle(const std::string& line, bool commands) {
  if (trimmed(line).empty()) return Next::kGoOn;
  if (!commands || line[0] != '/') return answer(/*again=*/false, line);
  const size_t space = line.find(' ');
  const std::string_view name = std::string_view(line).substr(0, space);
  return command(name, space == std::string::npos ? std::string_view() : trimmed(std::string_view(line).substr(space)));
}

Conversation::Next Conversation::command(std::string_view name, std::string_view argument) {
  if (name == "/exit" || name == "/quit") return Next::kLeave;
  if (name == "/regen") return answer(/*again=*/true, {});
  if (name == "/help") {
    screen_.note(kHelp);
  } else if (name == "/stats") {
    show_stats();
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
    }
  } else {
    screen_.note("no such command: " + std::string(name) + " (/help lists them)");
  }
  return Next::kGoOn;
}

Conversation::Next Conversation::answer(bool again, std::string_view message) {
  InterruptScope interrupt;
  TurnOptions options = options_;
  options.stop = interrupt.token();
  const TurnCallback show = [&](const TurnEvent& event) { screen_.show(event); };
  const Result<Turn> turn = again ? session_.regenerate(options, show) : session_.send(message, options, show);
  if (turn.ok()) {
    screen_.finish(*turn, n_turns());
    if (turn->lost_prefix) screen_.note(turn->lost_prefix->to_string());
  } else if (turn.status().code() == ErrorCode::kCancelled) {
    screen_.note("stopped before the first word; the message was taken back");
  } else {
    fail(turn.status());
  }
  return interrupt.interrupted() ? Next::kInterrupted : Next::kGoOn;
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
