#include "apps/chat/saved_sessions.h"

#include <algorithm>
#include <filesystem>
#include <utility>

#include "apps/user_folders.h"

namespace ibid {
namespace {

constexpr size_t kMaxNameLength = 64;

// nullptr: it cannot be locked, because of a directory that is read-only, say. Saving will fail then, and say why.
Result<std::unique_ptr<FileLock>> lock_session(const std::string& path) {
  Result<std::unique_ptr<FileLock>> lock = system_file_ops().lock(path + ".lock");
  if (lock.ok()) return lock;
  if (lock.status().code() != ErrorCode::kBusy) return std::unique_ptr<FileLock>();
  return {ErrorCode::kBusy, "another ibid is in this conversation; leave it there first, or take another name"};
}

bool may_stand_in_name(char c) {
  return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9') || c == '_' || c == '-';
}

}  // namespace

Result<std::string> sessions_directory() {
  TRY_ASSIGN(const std::string folder, user_folder(UserFolder::kState));
  return folder + "/sessions";
}

Result<std::string> kv_cache_directory() {
  TRY_ASSIGN(const std::string folder, user_folder(UserFolder::kCache));
  return folder + "/kv";
}

Result<std::string> session_path(const std::string& name) {
  if (name.empty() || name.size() > kMaxNameLength || !std::all_of(name.begin(), name.end(), may_stand_in_name)) {
    return {ErrorCode::kInvalidArgument, "a session's name is 1 to 64 letters, digits, _ and -"};
  }
  TRY_ASSIGN(const std::string directory, sessions_directory());
  return directory + "/" + name + ".ibid";
}

Result<ResumedSession> resume_session(std::shared_ptr<Engine> engine, const std::string& path,
                                      SessionOptions options) {
  std::error_code error;
  if (!std::filesystem::exists(path, error)) {
    TRY(system_file_ops().make_directory(std::filesystem::path(path).parent_path().string()));
    TRY_ASSIGN(std::unique_ptr<FileLock> lock, lock_session(path));
    TRY_ASSIGN(ChatSession session, ChatSession::create(std::move(engine), std::move(options)));
    return ResumedSession{std::move(session), true, std::move(lock)};
  }
  TRY_ASSIGN(std::unique_ptr<FileLock> lock, lock_session(path));
  TRY_ASSIGN(ChatSession session, ChatSession::load(std::move(engine), path));
  const Json& messages = session.messages();
  const bool has_system = !messages.empty() && messages[0].value("role", "") == "system";
  if (!options.system.empty() && (!has_system || messages[0].value("content", "") != options.system)) {
    return {ErrorCode::kInvalidArgument, "the saved conversation has another system message; leave --system out, or "
                                         "begin anew with /system"};
  }
  return ResumedSession{std::move(session), false, std::move(lock)};
}

}  // namespace ibid
