#include "apps/serve/service/session_directory.h"

#include <algorithm>
#include <array>
#include <cstdio>
#include <filesystem>
#include <optional>
#include <random>
#include <span>
#include <utility>

#include "apps/serve/service/model_host.h"
#include "base/sha256.h"

namespace ibid::serve {

class SessionDirectory::Session final : public ConversationHolder {
 public:
  Session(std::string model, Conversation conversation)
      : model_(std::move(model)), conversation_(std::move(conversation)) {
    note();
  }

  Result<Conversation> take() override {
    const std::lock_guard lock(mutex_);
    if (!conversation_) return {ErrorCode::kBusy, "the session is busy; it does one thing at a time"};
    return *std::exchange(conversation_, std::nullopt);
  }
  void put(Conversation conversation) override {
    const std::lock_guard lock(mutex_);
    conversation_ = std::move(conversation);
    note();
  }

  // Does something with the conversation, unless it is busy.
  template <typename Do>
  auto with(const Do& what) -> decltype(what(std::declval<Conversation&>())) {
    const std::lock_guard lock(mutex_);
    if (!conversation_) return {ErrorCode::kBusy, "the session is busy; it does one thing at a time"};
    auto result = what(*conversation_);
    note();
    return result;
  }

  SessionInfo info(std::string_view id) const {
    const std::lock_guard lock(mutex_);
    SessionInfo info = last_;
    info.id = id;
    info.model = model_;
    info.is_busy = !conversation_;
    return info;
  }

 private:
  void note() {
    last_.n_messages = conversation_->size();
    last_.n_ids = conversation_->session().ids().size();
    last_.n_bytes = conversation_->n_bytes();
  }

  const std::string model_;
  mutable std::mutex mutex_;  // guards what follows
  std::optional<Conversation> conversation_;  // nothing: it is busy
  SessionInfo last_;
};

namespace {

std::string new_session_id() {
  std::random_device random;
  std::array<char, 32> text{};
  std::snprintf(text.data(), text.size(), "session-%08x%08x", random(), random());
  return text.data();
}

std::string folder_of_namespace(std::string_view name) {
  Sha256 hash;
  hash.update(name);
  const Sha256Digest digest = hash.finish();
  return to_hex(std::span(digest).first(16));
}

bool is_file_name(std::string_view name) {
  return !name.empty() && name.size() <= 64 && std::ranges::all_of(name, [](char c) {
    return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9') || c == '_' || c == '-';
  });
}

}  // namespace

SessionDirectory::SessionDirectory(ModelHost& models, const SessionDirectoryOptions& options)
    : models_(models), options_(options) {}
SessionDirectory::~SessionDirectory() = default;

Result<std::shared_ptr<SessionDirectory::Session>> SessionDirectory::find(std::string_view cache_namespace,
                                                                          std::string_view id) const {
  const std::lock_guard lock(mutex_);
  if (const auto space = spaces_.find(cache_namespace); space != spaces_.end()) {
    if (const auto session = space->second.find(id); session != space->second.end()) return session->second;
  }
  return {ErrorCode::kNotFound, "there is no session \"" + std::string(id) + "\""};
}

Result<std::string> SessionDirectory::add(const std::string& model, Conversation conversation) {
  const std::string name = conversation.cache_namespace();
  const size_t n_bytes = conversation.n_bytes();
  const auto session = std::make_shared<Session>(model, std::move(conversation));
  const std::lock_guard lock(mutex_);
  Sessions& sessions = spaces_[name];
  if (sessions.size() >= options_.max_sessions) {
    return {ErrorCode::kLimitExceeded,
            std::to_string(sessions.size()) + " sessions are open, and no more may: delete one"};
  }
  size_t in_use = 0;
  for (const auto& [id, other] : sessions) in_use += other->info(id).n_bytes;
  if (in_use + n_bytes > options_.budget_bytes) {
    return {ErrorCode::kLimitExceeded, "the sessions take " + std::to_string(in_use) + " bytes, allowed are " +
                                           std::to_string(options_.budget_bytes) + ": delete one"};
  }
  std::string id = new_session_id();
  sessions.emplace(id, session);
  return id;
}

Result<std::string> SessionDirectory::create(const std::string& cache_namespace, const std::string& model,
                                             const Json& messages, const Json& variables, WhenFull when_full) {
  TRY_ASSIGN(const std::string name, models_.resolve(model));
  TRY_ASSIGN(std::shared_ptr<Engine> engine, models_.get(name));
  TRY_ASSIGN(ChatSession session,
             ChatSession::create(std::move(engine), {.variables = variables.is_null() ? Json::object() : variables,
                                                     .cache_namespace = cache_namespace,
                                                     .when_full = when_full}));
  Conversation conversation(cache_namespace, std::move(session));
  TRY(conversation.go_on(messages.is_null() ? Json::array() : messages, 0));
  return add(name, std::move(conversation));
}

std::vector<SessionInfo> SessionDirectory::list(std::string_view cache_namespace) const {
  const std::lock_guard lock(mutex_);
  std::vector<SessionInfo> out;
  const auto space = spaces_.find(cache_namespace);
  if (space == spaces_.end()) return out;
  for (const auto& [id, session] : space->second) out.push_back(session->info(id));
  return out;
}

Result<SessionInfo> SessionDirectory::info(std::string_view cache_namespace, std::string_view id) const {
  TRY_ASSIGN(const std::shared_ptr<Session> session, find(cache_namespace, id));
  return session->info(id);
}

Result<Json> SessionDirectory::messages(std::string_view cache_namespace, std::string_view id) const {
  TRY_ASSIGN(const std::shared_ptr<Session> session, find(cache_namespace, id));
  return session->with([](const Conversation& conversation) -> Result<Json> {
    Json out = Json::array();
    for (size_t i = 0; i < conversation.size(); ++i) out.push_back(conversation.seen(i));
    return out;
  });
}

Result<std::shared_ptr<ConversationHolder>> SessionDirectory::holder(std::string_view cache_namespace,
                                                                     std::string_view id) const {
  TRY_ASSIGN(std::shared_ptr<Session> session, find(cache_namespace, id));
  return std::shared_ptr<ConversationHolder>(std::move(session));
}

Result<std::string> SessionDirectory::fork(const std::string& cache_namespace, std::string_view id,
                                           size_t n_messages) {
  TRY_ASSIGN(const std::shared_ptr<Session> session, find(cache_namespace, id));
  TRY_ASSIGN(Conversation copy, session->with([&](const Conversation& conversation) {
               return conversation.fork_at(n_messages);
             }));
  return add(session->info(id).model, std::move(copy));
}

Status SessionDirectory::rewind(std::string_view cache_namespace, std::string_view id, size_t n_messages) {
  TRY_ASSIGN(const std::shared_ptr<Session> session, find(cache_namespace, id));
  return session->with([&](Conversation& conversation) { return conversation.rewind(n_messages); });
}

Status SessionDirectory::remove(std::string_view cache_namespace, std::string_view id) {
  TRY(find(cache_namespace, id).status());
  std::shared_ptr<Session> gone;  // destroyed without the lock
  const std::lock_guard lock(mutex_);
  const auto space = spaces_.find(cache_namespace);
  if (space == spaces_.end()) return {};
  if (auto node = space->second.extract(std::string(id)); !node.empty()) gone = std::move(node.mapped());
  if (space->second.empty()) spaces_.erase(space);
  return {};
}

// --- files

// Namespaces may have any name, so their folders have its hash.
Result<std::string> SessionDirectory::file_of(const std::string& cache_namespace, const std::string& name) const {
  if (options_.directory.empty()) {
    return {ErrorCode::kUnsupported, "sessions are not saved: the server was given no directory for them"};
  }
  if (!is_file_name(name)) {
    return {ErrorCode::kInvalidArgument,
            "the name of a saved session has 1 to 64 letters, digits, \"_\" and \"-\""};
  }
  const std::string folder = options_.directory + "/" + folder_of_namespace(cache_namespace);
  std::error_code error;
  std::filesystem::create_directories(folder, error);
  if (error) return {ErrorCode::kIo, folder + ": " + error.message()};
  std::filesystem::permissions(folder, std::filesystem::perms::owner_all, error);
  return folder + "/" + name + ".session";
}

Status SessionDirectory::save(const std::string& cache_namespace, std::string_view id, const std::string& name) const {
  TRY_ASSIGN(const std::shared_ptr<Session> session, find(cache_namespace, id));
  TRY_ASSIGN(const std::string path, file_of(cache_namespace, name));
  return session->with([&](const Conversation& conversation) { return conversation.session().save(path); });
}

Result<std::string> SessionDirectory::restore(const std::string& cache_namespace, const std::string& model,
                                              const std::string& name) {
  TRY_ASSIGN(const std::string path, file_of(cache_namespace, name));
  TRY_ASSIGN(const std::string model_name, models_.resolve(model));
  TRY_ASSIGN(std::shared_ptr<Engine> engine, models_.get(model_name));
  TRY_ASSIGN(ChatSession session,
             ChatSession::load(std::move(engine), path, {.cache_namespace = cache_namespace}));
  return add(model_name, Conversation(cache_namespace, std::move(session)));
}

}  // namespace ibid::serve
