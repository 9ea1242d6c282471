#include "ibid/chat_session.h"

#include <new>
#include <utility>

#include "api/inside.h"
#include "api/message_json.h"
#include "base/check.h"
#include "base/json_limits.h"
#include "base/result.h"
#include "runtime/out_of_heap.h"

namespace ibid::api {

ChatSession::ChatSession(std::unique_ptr<Parts> parts) : parts_(std::move(parts)) {}
ChatSession::ChatSession(ChatSession&&) noexcept = default;
ChatSession& ChatSession::operator=(ChatSession&&) noexcept = default;
ChatSession::~ChatSession() = default;

Result<ChatSession> ChatSession::create(std::shared_ptr<Engine> engine, SessionOptions options) try {
  CHECK(engine != nullptr);
  ibid::SessionOptions inside;
  TRY_ASSIGN(inside.variables, variables_of(options.variables));
  inside.system = std::move(options.system);
  inside.now = std::move(options.now);
  inside.cache_namespace = std::move(options.cache_namespace);
  inside.when_full = options.when_full;
  inside.repair_when_idle = options.repair_when_idle;
  TRY_ASSIGN(ibid::ChatSession session, ibid::ChatSession::create(Inside::engine(*engine), std::move(inside)));
  return Inside::handle(std::move(engine), std::move(session));
} catch (const std::bad_alloc&) {
  return out_of_heap();
}

Result<ChatSession> ChatSession::load(std::shared_ptr<Engine> engine, const std::string& path,
                                      const LoadOptions& options) try {
  CHECK(engine != nullptr);
  TRY_ASSIGN(ibid::ChatSession session, ibid::ChatSession::load(Inside::engine(*engine), path, options));
  return Inside::handle(std::move(engine), std::move(session));
} catch (const std::bad_alloc&) {
  return out_of_heap();
}

Result<ChatSession> ChatSession::fork() const try {
  TRY_ASSIGN(ibid::ChatSession session, parts_->session.fork());
  return Inside::handle(parts_->engine, std::move(session));
} catch (const std::bad_alloc&) {
  return out_of_heap();
}

// --- turns

Result<Turn> ChatSession::send(std::string_view message, const TurnOptions& options, const TurnCallback& on_event) {
  return parts_->session.send(message, options, on_event);
}

Result<Turn> ChatSession::answer(const TurnOptions& options, const TurnCallback& on_event) {
  return parts_->session.answer(options, on_event);
}

Result<Usage> ChatSession::prefill(std::stop_token stop, Priority priority) {
  return parts_->session.prefill(std::move(stop), priority);
}

Result<Turn> ChatSession::regenerate(const TurnOptions& options, const TurnCallback& on_event) {
  return parts_->session.regenerate(options, on_event);
}

Result<Turn> ChatSession::edit(size_t message, std::string_view text, const TurnOptions& options,
                               const TurnCallback& on_event) {
  return parts_->session.edit(message, text, options, on_event);
}

static_assert(ChatSession::kMaxAnswers == ibid::ChatSession::kMaxAnswers);

Result<std::vector<Turn>> ChatSession::send_for_answers(std::string_view message, size_t n, const TurnOptions& options,
                                                        const AnswersCallback& on_event) {
  return parts_->session.send_for_answers(message, n, options, on_event);
}

Status ChatSession::choose(size_t answer) { return parts_->session.choose(answer); }

// --- messages

Status ChatSession::append(const Message& message) try {
  TRY_ASSIGN(Json json, json_of(message));
  return parts_->session.append(std::move(json));
} catch (const std::bad_alloc&) {
  return out_of_heap();
}

Status ChatSession::set_history(const std::vector<Message>& messages) try {
  TRY_ASSIGN(Json json, history_of(messages));
  return parts_->session.set_history(std::move(json));
} catch (const std::bad_alloc&) {
  return out_of_heap();
}

Status ChatSession::rewind_to(size_t n_messages) { return parts_->session.rewind_to(n_messages); }
Status ChatSession::reset() { return parts_->session.reset(); }
Status ChatSession::set_system(std::string_view text) { return parts_->session.set_system(text); }
Status ChatSession::pin(size_t message) { return parts_->session.pin(message); }
Status ChatSession::set_when_full(WhenFull policy) { return parts_->session.set_when_full(policy); }

Status ChatSession::set_variables(const std::string& variables) try {
  TRY_ASSIGN(Json json, variables_of(variables));
  return parts_->session.set_variables(std::move(json));
} catch (const std::bad_alloc&) {
  return out_of_heap();
}

Status ChatSession::save(const std::string& path, const SaveOptions& options, SaveReport* report) const {
  return parts_->session.save(path, options, report);
}

// --- what there is

std::vector<Message> ChatSession::messages() const {
  std::vector<Message> out;
  for (const Json& message : parts_->session.messages()) out.push_back(message_of(message));
  return out;
}

size_t ChatSession::n_messages() const { return parts_->session.messages().size(); }

Message ChatSession::message(size_t i) const {
  CHECK_LT(i, n_messages());
  return message_of(parts_->session.messages()[i]);
}

std::string ChatSession::messages_json() const { return json_to_string(parts_->session.messages()); }
const Tokens& ChatSession::ids() const { return parts_->session.ids(); }
size_t ChatSession::n_in_memory() const { return parts_->session.kv().length(); }
WhenFull ChatSession::when_full() const { return parts_->session.when_full(); }
const SessionLosses& ChatSession::losses() const { return parts_->session.losses(); }
const Usage& ChatSession::usage() const { return parts_->session.usage(); }
const Timings& ChatSession::timings() const { return parts_->session.timings(); }
size_t ChatSession::count_tokens(std::string_view text) const { return parts_->session.count_tokens(text); }
const std::shared_ptr<Engine>& ChatSession::engine() const { return parts_->engine; }

}  // namespace ibid::api
